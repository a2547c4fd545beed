"""The test API: what AWS, other accounts and bad luck do to an account."""

from collections.abc import Mapping
from typing import Any, Final

from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.control import faults as control_faults
from lab.embedded.ec2.control import instances as control_instances
from lab.embedded.ec2.control import reservations as control_reservations

ACTIONS: Final = {
    **control_reservations.ACTIONS,
    **control_instances.ACTIONS,
    **control_faults.ACTIONS,
}


class ControlError(ValueError):
    """A control action that does not exist or cannot be done."""


def perform(world: World, action: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Perform ``action``; the payload's members are the action's keyword arguments.

    Raises
    ------
    ControlError
        For an unknown action, a member that it does not take, or one that makes no sense.
    """
    if action not in ACTIONS:
        raise ControlError(
            f"there is no control action {action!r}; known: {', '.join(sorted(ACTIONS))}"
        )
    try:
        return ACTIONS[action](world, **payload)
    except (TypeError, Ec2Error) as error:
        raise ControlError(f"{action}: {error}") from error
