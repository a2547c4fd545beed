"""SQS makes no queue by a name that another queue had less than 60 seconds ago.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteQueue.html; CloudFormation fails with
what SQS says: https://github.com/pulumi/pulumi-aws-native/pull/1984.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from typing import Any, Final

from ministack.services import sqs
from ministack.services.cloudformation import provisioners

from lab.embedded.limits.quotas import Properties, QuotaError

RESERVED_S: Final = 60
_MESSAGE: Final = (
    "You must wait 60 seconds after deleting a queue before you can create another with the"
    " same name."
)


# When queues were deleted, by their names; SQS's own clock says what time it is.
_deleted_at_s: dict[str, float] = {}


def install() -> None:
    """Watch what deletes queues, and what makes them, at the API and in stacks."""
    create, delete = sqs._HANDLERS["CreateQueue"], sqs._HANDLERS["DeleteQueue"]

    def created(data: dict[str, Any], *rest: Any) -> Any:
        if _is_reserved(data.get("QueueName", "")):
            raise sqs._Err("QueueDeletedRecently", _MESSAGE, 400)
        return create(data, *rest)

    def deleted(data: dict[str, Any], url: str) -> Any:
        answer = delete(data, url)
        _reserve(data.get("QueueUrl", url))
        return answer

    sqs._HANDLERS["CreateQueue"] = created
    sqs._HANDLERS["DeleteQueue"] = deleted
    _install_for_stacks()


def forget() -> None:
    """Forget all names."""
    _deleted_at_s.clear()


def _install_for_stacks() -> None:
    handlers = provisioners._RESOURCE_HANDLERS["AWS::SQS::Queue"]
    create, delete = handlers["create"], handlers["delete"]

    def creating(logical_id: str, properties: Properties, stack: str) -> Any:
        name, _ = provisioners._sqs_queue_name(properties, stack, logical_id)
        if _is_reserved(name):
            raise QuotaError(
                f"{_MESSAGE} (Service: Sqs, Status Code: 400) (HandlerErrorCode: Throttling)"
            )
        return create(logical_id, properties, stack)

    def deleting(url: str, *rest: Any) -> Any:
        _reserve(url)
        return delete(url, *rest)

    # A queue that is replaced is made and deleted by the module's own functions.
    provisioners._sqs_create, provisioners._sqs_delete = creating, deleting
    changed = {**handlers, "create": creating, "delete": deleting}
    provisioners._RESOURCE_HANDLERS["AWS::SQS::Queue"] = changed


def _reserve(url: str) -> None:
    _deleted_at_s[url.rpartition("/")[2]] = sqs.time.time()


def _is_reserved(name: str) -> bool:
    deleted_at_s = _deleted_at_s.get(name)
    return deleted_at_s is not None and sqs.time.time() < deleted_at_s + RESERVED_S
