"""What EventBridge hears of stacks: "CloudFormation Stack Status Change", which MiniStack keeps to itself.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/eventbridge-events.html.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import uuid
from collections.abc import Callable
from typing import Any, Final

from ministack.core import responses
from ministack.services.cloudformation import changesets, handlers, stacks

from lab.embedded import services
from lab.embedded.emulated_time.clock import EmulatedClock

_OF_STACK: Final = "AWS::CloudFormation::Stack"


def install(clock: EmulatedClock) -> None:
    """Put an event on the default bus whenever a stack gets another status."""
    tell = _telling(stacks._add_event, clock)
    for module in (stacks, changesets, handlers):  # each holds the name
        module._add_event = tell


def _telling(add_event: Callable[..., None], clock: EmulatedClock) -> Callable[..., None]:
    def tell(
        stack_id: str,
        stack_name: str,
        logical_id: str,
        kind: str,
        status: str,
        reason: str = "",
        physical_id: str = "",
        detailed_status: str = "",
    ) -> None:
        add_event(
            stack_id,
            stack_name,
            logical_id,
            kind,
            status,
            reason,
            physical_id,
            detailed_status,
        )
        # not a stack that is a resource of this one
        if kind == _OF_STACK and physical_id == stack_id:
            services.put_service_event(_event(stack_id, status, reason, clock))

    return tell


def _event(stack_id: str, status: str, reason: str, clock: EmulatedClock) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "source": "aws.cloudformation",
        "detail-type": "CloudFormation Stack Status Change",
        "account": responses.get_account_id(),
        "region": responses.get_region(),
        "time": clock.now().isoformat(),
        "resources": [stack_id],
        "detail": {
            "stack-id": stack_id,
            "status-details": {"status": status, "status-reason": reason},
            "client-request-token": stacks.CLIENT_REQUEST_TOKEN.get(),
        },
    }
