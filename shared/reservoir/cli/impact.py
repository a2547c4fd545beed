"""What a change of policy would bring about, for people."""

from collections import Counter
from collections.abc import Iterator

import typer

from reservoir.cli.console import messages
from reservoir.cli.output import printable
from reservoir.cli.policy import attempt, connection
from reservoir.core.scheduling_terms.money import usd
from reservoir.usecases.policy.apply_policy import Outcome
from reservoir.usecases.what_if.policy_impact import FindPolicyImpact, PolicyImpact


def impact_of(context: typer.Context, outcome: Outcome) -> PolicyImpact:
    """Return the impact of changes that have not been made; without changes nothing is read."""
    if not outcome.effective:
        return PolicyImpact()
    stack = connection(context)
    question = FindPolicyImpact(stack.snapshots, stack.outside.clock)
    return attempt(lambda: question.of(outcome.effective))


def print_impact(context: typer.Context, outcome: Outcome) -> None:
    """Print the impact of changes that have not been made, beside the other warnings about them."""
    if outcome.effective:
        for line in _lines(impact_of(context, outcome)):
            messages().print(f"impact: {printable(line)}")


def _lines(impact: PolicyImpact) -> Iterator[str]:
    if impact.drifting:
        count = len(impact.drifting)
        reserved = sum(node.is_reserved for node in impact.drifting)
        price = sum(node.price_micro_usd_per_hour for node in impact.drifting)
        bought = (
            f"{count - reserved} bought for {usd(price)} an hour"
            if count > reserved
            else "none bought"
        )
        yield f"{_nodes(count)} would drift and be replaced: {reserved} reserved, {bought}"
        for reason, nodes in sorted(
            Counter(node.reason for node in impact.drifting).items()
        ):
            yield f"{_nodes(nodes)}: {reason}"
    else:
        yield "no node would drift"
    for pool in impact.never_launching:
        yield f"nodepool/{pool.node_pool_name} can never launch because {pool.reason}"
    for note in impact.notes:
        yield f"assumed: {note}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
