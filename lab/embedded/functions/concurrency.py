"""How many invocations there may be at once: the account's limit and what functions have reserved of it, as on Lambda.

Source: https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html. A function with reserved concurrency may
use that much and no more; all others share what is left of the account's limit. Whoever invokes a function beyond that
is refused (``TooManyRequestsException``); asynchronous events go back to their queue (``events``) and pollers
of queues wait.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core import responses
from ministack.services import lambda_svc

ACCOUNT_LIMIT: Final = 1_000  # AWS's default quota of concurrent executions
UNRESERVED_MINIMUM: Final = 100  # what reservations must leave to all other functions
Function = Mapping[str, Any]


def install() -> None:
    """Replace MiniStack's count, which takes no notice of what others have reserved."""
    set_account_limit(ACCOUNT_LIMIT)
    lambda_svc._acquire_execution_slot = _acquire
    _let_pollers_wait()
    _keep_an_unreserved_minimum()


def set_account_limit(count: int) -> None:
    """Set the account's quota.

    Raises
    ------
    ValueError
        When the count is not positive.
    """
    if count < 1:
        raise ValueError("an account's limit is at least 1")
    lambda_svc._ACCOUNT_CONCURRENCY_CAP = count


def _acquire(function: Function, config: Function) -> tuple[str | None, str | None]:
    key = lambda_svc._inflight_key(config)
    with lambda_svc._inflight_lock:
        if _free(function, config) < 1:
            return None, "account" if lambda_svc._reserved_concurrency(
                function, config
            ) is None else "function"
        lambda_svc._inflight[key] = lambda_svc._inflight.get(key, 0) + 1
        lambda_svc._inflight_total += 1
    return key, None


def _free(function: Function, config: Function) -> int:
    """Return how many more invocations of a function there may be."""
    reserved = lambda_svc._reserved_concurrency(function, config)
    if reserved is not None:
        return int(reserved) - int(
            lambda_svc._inflight.get(lambda_svc._inflight_key(config), 0)
        )
    reserving = _reserving()
    in_use = sum(
        count for key, count in lambda_svc._inflight.items() if key not in reserving
    )
    limit: int = lambda_svc._ACCOUNT_CONCURRENCY_CAP
    return limit - sum(reserving.values()) - int(in_use)


def _reserving() -> dict[str, int]:
    return {
        lambda_svc._inflight_key(function["config"]): int(function["concurrency"])
        for function in list(lambda_svc._functions._data.values())
        if function.get("concurrency") is not None
    }


def _let_pollers_wait() -> None:
    batches_at_once: Callable[..., int] = lambda_svc._sqs_esm_concurrency

    def while_there_is_room(
        mapping: Any, function: Function, config: Function, queue: Any = None
    ) -> int:
        with lambda_svc._inflight_lock:
            if _free(function, config) < 1:
                return 0
        # Of a FIFO queue too: ``lab.embedded.services`` makes batches of one group, and a group has one at a time.
        del queue
        return batches_at_once(mapping, function, config)

    lambda_svc._sqs_esm_concurrency = while_there_is_room


def _keep_an_unreserved_minimum() -> None:
    put: Callable[[str, dict[str, Any]], Any] = lambda_svc._put_function_concurrency

    def put_within_limit(name: str, data: dict[str, Any]) -> Any:
        function = lambda_svc._functions.get(name)
        wanted = int(data.get("ReservedConcurrentExecutions", 0))
        if function is not None:
            others = sum(_reserving().values()) - int(function.get("concurrency") or 0)
            if (
                wanted
                and lambda_svc._ACCOUNT_CONCURRENCY_CAP - others - wanted
                < UNRESERVED_MINIMUM
            ):
                return responses.error_response_json(
                    "InvalidParameterValueException",
                    "Specified ReservedConcurrentExecutions for function decreases account's "
                    f"UnreservedConcurrentExecution below its minimum value of [{UNRESERVED_MINIMUM}].",
                    400,
                )
        return put(name, data)

    lambda_svc._put_function_concurrency = put_within_limit
