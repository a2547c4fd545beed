"""The identity of a principal in AWS, which outlasts its name."""

from typing import Protocol


class PrincipalReader(Protocol):
    """IAM's roles and users."""

    def unique_id(self, arn: str) -> str | None:
        """Return the unique id of a role or user, None when there is none of that ARN in this account.

        Raises AwsError when IAM does not say.
        """
        ...
