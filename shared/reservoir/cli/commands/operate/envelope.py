"""``reservoir envelope show`` and ``reservoir envelope lift``."""

from datetime import timedelta
from typing import Annotated, Final

import typer

from reservoir.cli.commands.act.by_hand import carry_out, request_of
from reservoir.cli.console import Reason, Yes, add_group, output
from reservoir.cli.policy import attempt, connection
from reservoir.core.safety.endings import WINDOW, EndingKind
from reservoir.core.safety.tally import LONGEST_LIFT
from reservoir.manifests.answers.operations import Verb
from reservoir.usecases.safety.envelope import LiftEnvelope

_LONGEST_MIN: Final = LONGEST_LIFT // timedelta(minutes=1)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(
        app, "envelope", "Show what the safety envelope holds, or lift it once.", show, lift
    )


def show(context: typer.Context) -> None:
    """Show, by kind of ending, what passed within the hour, what is held, and who lifted what."""
    now = connection(context).outside.clock.now()
    for tally in attempt(_use_case(context).show):
        passed = sum(len(each.ids) for each in tally.passed if now - each.at < WINDOW)
        state = "closed" if tally.is_shut else "holds" if tally.is_holding(now) else "open"
        output().print(
            f"{tally.kind}: {state}, {passed} ended within {WINDOW // timedelta(minutes=1)} minutes"
        )
        if tally.held is not None and tally.is_holding(now):
            held = tally.held
            output().print(
                f"  {held.wanted_count} would end, {held.limit} of {held.fleet_count} may,"
                f" {held.passed_count} have ended: held since {held.since:%Y-%m-%d %H:%M} UTC"
            )
        for given in (*tally.past_lifts, *([] if tally.lift is None else [tally.lift])):
            output().print(
                f"  lifted {given.made_at:%Y-%m-%d %H:%M} UTC by {given.by} for {given.count}, until"
                f" {given.ends_at:%Y-%m-%d %H:%M} UTC, {given.used_count} used: {given.reason}"
            )


def lift(
    context: typer.Context,
    kind: Annotated[
        EndingKind,
        typer.Argument(help="The kind, as in `reservoir envelope show`."),
    ],
    count: Annotated[int, typer.Option(min=1, help="How many may end beyond the bound.")],
    reason: Reason,
    minutes: Annotated[
        int,
        typer.Option(min=1, max=_LONGEST_MIN, help="For how long; the rest expires then."),
    ] = 60,
    yes: Yes = False,
) -> None:
    """Let more end than the bound of the hour allows: once, so many, for so long."""
    if not yes:
        typer.confirm(
            f"{count} may end as {kind} within {minutes} minutes, beyond the bound. Lift it?",
            abort=True,
        )
    request = request_of(Verb.LIFT, [kind], reason, f"{minutes}m", count)
    carry_out(connection(context), request)


def _use_case(context: typer.Context) -> LiftEnvelope:
    stack = connection(context)
    return LiftEnvelope(stack.outside.tallies, stack.outside.publisher)
