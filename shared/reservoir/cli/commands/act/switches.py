"""``reservoir cordon``, ``uncordon``, ``pause``, ``resume``, ``reset``: what ends nothing, and asks nothing."""

import typer

from reservoir.cli.commands.act.by_hand import (
    Nodes,
    Pools,
    Workloads,
    carry_out,
    request_of,
)
from reservoir.cli.console import Reason
from reservoir.cli.naming import names_of, workload_key
from reservoir.cli.policy import connection
from reservoir.manifests.answers.operations import Verb


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (cordon, uncordon, pause, resume, reset):
        app.command(command.__name__)(command)


def cordon(context: typer.Context, nodes: Nodes, reason: Reason) -> None:
    """Stop nodes from taking new replicas. Those that they have stay."""
    _switch(context, Verb.CORDON, nodes, reason)


def uncordon(context: typer.Context, nodes: Nodes, reason: Reason) -> None:
    """Let nodes take new replicas again."""
    _switch(context, Verb.UNCORDON, nodes, reason)


def pause(context: typer.Context, pools: Pools, reason: Reason) -> None:
    """Stop NodePools from launching nodes. Their nodes stay, and go on taking replicas."""
    _switch(context, Verb.PAUSE, pools, reason)


def resume(context: typer.Context, pools: Pools, reason: Reason) -> None:
    """Let NodePools launch nodes again."""
    _switch(context, Verb.RESUME, pools, reason)


def reset(context: typer.Context, workloads: Workloads, reason: Reason) -> None:
    """Let workloads start at generation 1 again. What is wanted, and what runs, stays."""
    keys = [workload_key(name) for name in names_of(Verb.RESET, workloads)]
    carry_out(connection(context), request_of(Verb.RESET, keys, reason))


def _switch(context: typer.Context, verb: Verb, words: list[str], reason: str) -> None:
    carry_out(connection(context), request_of(verb, names_of(verb, words), reason))
