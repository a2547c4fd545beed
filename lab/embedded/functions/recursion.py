"""Lambda's detection of recursive loops: how often a function is in a chain of requests, and what is dropped.

https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html: Lambda counts in the trace header
(``Lineage``), which SDKs send on with each request of a function and SQS keeps with a message (``AWSTraceHeader``). A
function that has run 16 times in a chain is not invoked again, unless it says ``RecursiveLoop: Allow``; what it should
have worked on goes to the queue's dead letters, or is lost. AWS says "approximately 16" and detects chains through SQS,
SNS, S3 and Lambda; here these are SQS and invocations that are waited for. Of a batch, each message is counted by its
own chain.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import contextvars
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ministack.services import cloudwatch, lambda_svc, sqs
from ministack.services.cloudformation import provisioners

RUNS_MAX: Final[int] = lambda_svc.MAX_INVOKE_DEPTH
TRACE_HEADER: Final = "x-amzn-trace-id"
ATTRIBUTE: Final = "AWSTraceHeader"
_LINEAGE: Final = re.compile(r"Lineage=([^;]*)")
_ENTRY: Final = re.compile(r"([0-9a-f]{8}):(\d+)")

Lineage = Mapping[str, int]  # how often each function ran in a chain, by its hash
Message = Mapping[str, Any]
# The trace header of the function's request that is being answered; empty for anybody else's.
sent_header: Final[contextvars.ContextVar[str]] = contextvars.ContextVar(
    "trace header of this request", default=""
)
_incoming: Final[contextvars.ContextVar[Lineage | None]] = contextvars.ContextVar(
    "chain that the next invocation goes on with", default=None
)


def install() -> None:
    """Let messages carry their chain, and drop what goes round."""
    sqs._build_send_sys_attrs = _with_header(sqs._build_send_sys_attrs)
    lambda_svc._run_sqs_batch = _without_loops(lambda_svc._run_sqs_batch)
    drop = lambda_svc._recursive_loop_drop

    def drop_by_chain(name: str, function: dict[str, Any], _depth: int) -> Any:
        runs = lineage_of(sent_header.get()).get(_hash(lambda_svc._func_arn(name)), 0)
        return drop(name, function, runs + 1)

    lambda_svc._recursive_loop_drop = drop_by_chain
    _keep_choice_of_resources()


def lineage_of(header: str) -> Lineage:
    """Return how often each function has run in the chain that a trace header tells of."""
    found = _LINEAGE.search(header)
    if found is None:
        return {}
    return {name: int(runs) for name, runs in _ENTRY.findall(found[1])}


def next_header(function_arn: str) -> str:
    """Return the trace header of an invocation: the chain that it goes on with, and itself once more."""
    chain = _incoming.get()
    known = dict(lineage_of(sent_header.get()) if chain is None else chain)
    own = _hash(function_arn)
    known[own] = known.get(own, 0) + 1
    told = "|".join(f"{name}:{runs}" for name, runs in sorted(known.items()))
    root = f"1-{int(sqs.time.time()):08x}-{secrets.token_hex(12)}"
    return f"Root={root};Parent={secrets.token_hex(8)};Sampled=0;Lineage={told}"


def _hash(function_arn: str) -> str:
    return hashlib.sha256(function_arn.encode()).hexdigest()[:8]


def _with_header(
    build: Callable[[float, Any], dict[str, Any]],
) -> Callable[[float, Any], dict[str, Any]]:
    def attributes(now: float, asked: Any) -> dict[str, Any]:
        header = sent_header.get()
        return {**({ATTRIBUTE: header} if header else {}), **build(now, asked)}

    return attributes


def _without_loops(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_batch(
        mapping: Any,
        function: Mapping[str, Any],
        event: Mapping[str, Any],
        batch: Sequence[Message],
        queue_url: str,
        queue_name: str,
    ) -> Any:
        arn = str(function["config"]["FunctionArn"])
        dropped = (
            [] if _may_loop(function) else [it for it in batch if _went_round(it, arn)]
        )
        if dropped:
            _give_up(dropped, queue_url, str(function["config"]["FunctionName"]))
        ids = {message["id"] for message in dropped}
        left = [message for message in batch if message["id"] not in ids]
        if not left:
            return None
        records = [each for each in event["Records"] if each["messageId"] not in ids]
        token = _incoming.set(_longest(left))
        try:
            return run(mapping, function, {"Records": records}, left, queue_url, queue_name)
        finally:
            _incoming.reset(token)

    return run_batch


def _may_loop(function: Mapping[str, Any]) -> bool:
    choice: str = function.get("recursive_loop") or "Terminate"
    return choice == "Allow"


def _chain_of(message: Message) -> Lineage:
    return lineage_of(str(message["sys"].get(ATTRIBUTE, "")))


def _went_round(message: Message, function_arn: str) -> bool:
    return _chain_of(message).get(_hash(function_arn), 0) >= RUNS_MAX


def _longest(messages: Iterable[Message]) -> Lineage:
    """Return the chains of a batch as one, with the most runs of each function."""
    most: dict[str, int] = {}
    for message in messages:
        for name, runs in _chain_of(message).items():
            most[name] = max(runs, most.get(name, 0))
    return most


def _give_up(messages: Sequence[Message], queue_url: str, function: str) -> None:
    """Take messages out of their queue, into its dead letters if it has any."""
    with sqs._queues_lock:
        queue = sqs._get_q(queue_url)
        policy = json.loads(queue["attributes"].get("RedrivePolicy") or "{}")
        letters = sqs._queue_by_arn(policy.get("deadLetterTargetArn", ""))
        ids = {message["id"] for message in messages}
        given_up = [each for each in queue["messages"] if each["id"] in ids]
        queue["messages"] = [each for each in queue["messages"] if each["id"] not in ids]
        if letters is not None:
            letters["messages"] += [
                {**each, "receipt_handle": None, "visible_at": sqs.time.time()}
                for each in given_up
            ]
    cloudwatch.record_metric(
        "AWS/Lambda",
        "RecursiveInvocationsDropped",
        len(messages),
        "Count",
        {"FunctionName": function},
    )


def _keep_choice_of_resources() -> None:
    # MiniStack makes the functions of stacks without what they say of loops.
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]
    create, update = handlers["create"], handlers["update"]

    def with_choice(made: Any, properties: Mapping[str, Any]) -> Any:
        choice = properties.get("RecursiveLoop", "Terminate")
        lambda_svc._functions[made[0]]["recursive_loop"] = choice
        return made

    provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"] = {
        **handlers,
        "create": lambda logical_id, properties, *rest: with_choice(
            create(logical_id, properties, *rest), properties
        ),
        "update": lambda name, old, new, *rest: with_choice(
            update(name, old, new, *rest), new
        ),
    }
