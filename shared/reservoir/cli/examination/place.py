"""The account that is looked at before anything is deployed into it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from reservoir.cli.deployment.account import Account, Clients, FoundStack
from reservoir.cli.deployment.deployer import qualifier_of
from reservoir.deployment.deployment import Deployment
from reservoir.ports.discovery import LaunchEnvironmentReader

OF_AWS: Final = "alias/aws/"  # keys of a service's own


@dataclass(frozen=True, slots=True)
class Place:
    """The account, with the deployer's credentials, and the deployment that is planned.

    ``prices`` makes a client of the price list in a region; ``is_served``: whether a region has a service.
    """

    deployment: Deployment
    clients: Clients
    prices: Callable[[str], Any]
    region: str
    environment: LaunchEnvironmentReader
    is_served: Callable[[str, str], bool]

    @property
    def qualifier(self) -> str:
        """The qualifier of the CDK's bootstrap."""
        return qualifier_of(self.deployment.settings)

    def account(self) -> str:
        """Return the account that the credentials belong to."""
        return str(self.clients("sts").get_caller_identity()["Account"])

    def standing(self) -> FoundStack | None:
        """Return the deployment's stack; None where there is none yet."""
        name = self.deployment.stack
        return next((it for it in Account(self.clients).stacks() if it.name == name), None)
