"""IAM's unique ids: what stays a principal's own when its name is given to another."""

from typing import TYPE_CHECKING

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.ports.errors import NotFoundError

if TYPE_CHECKING:
    from mypy_boto3_iam import IAMClient


class IamPrincipals:
    """Implements ``reservoir.ports.principals.PrincipalReader``."""

    def __init__(self, iam: "IAMClient") -> None:
        self._iam = iam

    def unique_id(self, arn: str) -> str | None:
        """Return the unique id of a role or user, None when there is none of that ARN in this account."""
        kind, _, path = arn.rpartition(":")[2].partition("/")
        name = path.rpartition("/")[2]
        try:
            with map_client_errors():
                found_arn, found_id = (
                    self._role(name) if kind == "role" else self._user(name)
                )
        except NotFoundError:
            return None
        return found_id if found_arn == arn else None  # of another account or path

    def _role(self, name: str) -> tuple[str, str]:
        role = self._iam.get_role(RoleName=name)["Role"]
        return role["Arn"], role["RoleId"]

    def _user(self, name: str) -> tuple[str, str]:
        user = self._iam.get_user(UserName=name)["User"]
        return user["Arn"], user["UserId"]
