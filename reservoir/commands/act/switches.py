"""``reservoir cordon``, ``uncordon``, ``pause`` and ``resume``: what ends nothing, and so is done without asking."""

import typer

from reservoir.commands.act.by_hand import Nodes, Pools, carry_out, named, request_of
from reservoir.console import Reason
from reservoir.policy import connection
from shared.manifests.operations import Verb


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (cordon, uncordon, pause, resume):
        app.command(command.__name__)(command)


def cordon(context: typer.Context, nodes: Nodes, reason: Reason) -> None:
    """Let nodes take no new replicas. Those that they have stay."""
    _switch(context, Verb.CORDON, nodes, reason)


def uncordon(context: typer.Context, nodes: Nodes, reason: Reason) -> None:
    """Let nodes take replicas again."""
    _switch(context, Verb.UNCORDON, nodes, reason)


def pause(context: typer.Context, pools: Pools, reason: Reason) -> None:
    """Let NodePools launch nothing. Their nodes stay, and go on taking replicas."""
    _switch(context, Verb.PAUSE, pools, reason)


def resume(context: typer.Context, pools: Pools, reason: Reason) -> None:
    """Let NodePools launch again."""
    _switch(context, Verb.RESUME, pools, reason)


def _switch(context: typer.Context, verb: Verb, words: list[str], reason: str) -> None:
    carry_out(connection(context), request_of(verb, named(words, verb), reason))
