"""What the commands share that operate on nodes and NodePools by hand."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer

from reservoir.cli.console import FAILED, fail, messages, output
from reservoir.cli.output import printable
from reservoir.cli.policy import attempt
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.answers.operations import (
    ENVELOPE_VERBS,
    POOL_VERBS,
    WORKLOAD_VERBS,
    OperationRequest,
    OperationResult,
    Verb,
    parse_request,
)
from reservoir.manifests.parsing.problems import ManifestError

Nodes = Annotated[
    list[str], typer.Argument(help="NodeClaims or EC2 instances: NAME... or node/NAME...")
]
Workloads = Annotated[
    list[str],
    typer.Argument(help="Workloads: NAMESPACE/NAME... or workload/NAMESPACE/NAME..."),
]
Pools = Annotated[list[str], typer.Argument(help="NodePools: NAME... or nodepool/NAME...")]

_INSTANCE_PREFIX: Final = "i-"


def request_of(
    verb: Verb,
    names: Sequence[str],
    reason: str,
    deadline: str | None = None,
    count: int | None = None,
) -> OperationRequest:
    """Return the request; end the command with its problems, if there are any."""
    document: dict[str, Any] = {"verb": verb.value, "names": list(names), "reason": reason}
    if deadline is not None:
        document["deadline"] = deadline
    if count is not None:
        document["count"] = count
    try:
        return parse_request(document)
    except ManifestError as error:
        fail("\n".join(map(str, error.problems)))


def found(stack: Connection, names: Iterable[str]) -> dict[str, NodeClaim | None]:
    """Return the claims of nodes by the names that were given."""

    def look_up() -> dict[str, NodeClaim | None]:
        wanted = list(names)
        instances = [name for name in wanted if name.startswith(_INSTANCE_PREFIX)]
        claims = stack.outside.node_claims.get_many(
            [name for name in wanted if name not in instances]
        )
        of_instances = (
            stack.outside.node_claims.find_by_instance(instances) if instances else {}
        )
        return {name: {**claims, **of_instances}.get(name) for name in wanted}

    return attempt(look_up)


def describe(name: str, claim: NodeClaim | None) -> str:
    """Describe the replicas on a node, and what they take of it."""
    if claim is None:
        return f"node/{name} does not exist"
    offering = claim.offering
    instance = f" ({claim.instance_id})" if claim.instance_id else ""
    held = claim.placements or (() if claim.drain is None else claim.drain.awaiting)
    replicas = (
        ", ".join(f"{placed.count} x {placed.workload_key}" for placed in held)
        or "no replicas"
    )
    market = (
        f"a unit of {offering.reservation_id}"
        if offering.reservation_id
        else offering.capacity_type.value
    )
    where = f"{offering.instance_type} in {offering.zone}, {market}"
    return f"node/{claim.id}{instance}: {claim.state.value}, {where}; {replicas}"


def say(lines: Iterable[str]) -> None:
    """Print what will happen, on the error stream: it is no result."""
    for line in lines:
        messages().print(printable(line))


def carry_out(stack: Connection, request: OperationRequest) -> None:
    """Have a request carried out, and print the result for each object; end with 2 if any was refused."""
    kind = _kind(request.verb)
    results = stack.operate(request)
    for result in results:
        console = messages() if result.outcome == "refused" else output()
        console.print(f"{kind}/{result.name} {_said(result)}")
    if any(result.outcome == "refused" for result in results):
        raise typer.Exit(FAILED)


def _kind(verb: Verb) -> str:
    if verb in POOL_VERBS:
        return "nodepool"
    if verb in WORKLOAD_VERBS:
        return "workload"
    return "endings" if verb in ENVELOPE_VERBS else "node"


def _said(result: OperationResult) -> str:
    """Return the result for an object as printed; success needs no word before it."""
    if result.outcome == "done":
        return result.message
    return f"{result.outcome}: {result.message}"
