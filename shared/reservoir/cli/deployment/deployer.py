"""Whose credentials read an account before a deployment: the caller's, or those of the CDK's roles."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from reservoir.cli.deployment.account import REFUSED
from reservoir.deployment.settings import DeploymentSettings

CDK_QUALIFIER: Final = "hnb659fds"  # the CDK's own
# The bootstrap's: one deploys stacks, the other reads everything that is not encrypted with a key of one's own.
_STACK_ROLE: Final = "deploy-role"
_READING_ROLE: Final = "lookup-role"
_SESSION: Final = "reservoir-deployment"

# Returns a client of a service in a region, by default the environment's; the second with credentials from STS.
RegionalClients = Callable[..., Any]
ClientWith = Callable[[Mapping[str, str], str, str | None], Any]


def qualifier_of(settings: DeploymentSettings) -> str:
    """Return the qualifier of the CDK's bootstrap."""
    return settings.bootstrap_qualifier or CDK_QUALIFIER


def clients_of_deployer(
    own: RegionalClients, client_with: ClientWith, qualifier: str
) -> RegionalClients:
    """Return the caller's own clients, or those of the CDK's roles where the caller may not see stacks or tables.

    A pipeline often may do nothing but take these roles. The identity is always that of the caller.
    """
    if _may_look(own):
        return own
    deployer = _Deployer(own, client_with, qualifier)
    return deployer.client if deployer.may_take_roles() else own


def _may_look(own: RegionalClients) -> bool:
    try:
        own("cloudformation").describe_stacks()
        own("dynamodb").list_tables(Limit=1)
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return False
    return True


class _Deployer:
    def __init__(
        self, own: RegionalClients, client_with: ClientWith, qualifier: str
    ) -> None:
        self._own = own
        self._client_with = client_with
        self._qualifier = qualifier

    def may_take_roles(self) -> bool:
        try:
            self._credentials(_STACK_ROLE)
            self._credentials(_READING_ROLE)
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
            return False
        return True

    def client(self, service: str, region: str | None = None) -> Any:
        """Return a client of a service; each has the hour that a role is taken for."""
        if service == "sts":
            return self._own(service, region)
        role = _STACK_ROLE if service == "cloudformation" else _READING_ROLE
        return self._client_with(self._credentials(role), service, region)

    def _credentials(self, role: str) -> Mapping[str, str]:
        sts = self._own("sts")
        caller: str = sts.get_caller_identity()["Arn"]
        _, partition, _, _, account, _ = caller.split(":", 5)
        name = f"cdk-{self._qualifier}-{role}-{account}-{sts.meta.region_name}"
        arn = f"arn:{partition}:iam::{account}:role/{name}"
        taken = sts.assume_role(RoleArn=arn, RoleSessionName=_SESSION)
        credentials: Mapping[str, str] = taken["Credentials"]
        return credentials
