"""Stacks that failed, where MiniStack is kinder than CloudFormation: what could not be deleted stays in them.

A create that failed and could not take everything back is `ROLLBACK_FAILED`, and `DeleteStack` meets what is left
again: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html. A change set of a stack
that is not at rest is refused: https://github.com/juspay/hyperswitch-cdk/issues/114 has the words.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Mapping
from typing import Any, Final

from ministack.core import responses
from ministack.services import cloudformation
from ministack.services.cloudformation import handlers, helpers, stacks

_CHANGED_FROM: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "REVIEW_IN_PROGRESS",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
        # with --no-rollback the next change set goes on from there
        "CREATE_FAILED",
        "UPDATE_FAILED",
        # MiniStack itself says that there is none
        "DELETE_COMPLETE",
    }
)


def install() -> None:
    """Keep what was not deleted, and refuse change sets that CloudFormation refuses."""
    _keep_what_is_left()
    create = handlers._ACTION_HANDLERS["CreateChangeSet"]

    def checked(parameters: Mapping[str, Any]) -> Any:
        stack = cloudformation._stacks.get(helpers._p(parameters, "StackName"))
        is_update = helpers._p(parameters, "ChangeSetType", "UPDATE") == "UPDATE"
        if is_update and stack is not None and stack["StackStatus"] not in _CHANGED_FROM:
            return helpers._error(
                "ValidationError",
                f"Stack:{stack['StackId']} is in {stack['StackStatus']} state and can not be updated.",
            )
        return create(parameters)

    handlers._ACTION_HANDLERS["CreateChangeSet"] = checked


def _keep_what_is_left() -> None:
    roll_back = stacks._roll_back_operation

    async def rolling_back(name: str, stack_id: str, stack: Any, *rest: Any) -> None:
        await roll_back(name, stack_id, stack, *rest)
        if stack["StackStatus"] == "ROLLBACK_FAILED":
            for logical_id, resource in stack["_rollback_failed"].items():
                stack["_resources"][logical_id] = {
                    **resource,
                    "ResourceStatus": "DELETE_FAILED",
                    "Timestamp": responses.now_iso(),
                }

    for module in (stacks, handlers):
        module._roll_back_operation = rolling_back
