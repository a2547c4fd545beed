"""``reservoir assess``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.past.events import span
from reservoir.cli.console import fail, messages
from reservoir.cli.output import Column, Line, lines_of, printable, terminal_width
from reservoir.manifests.answers.assessment import (
    AssessedBeside,
    AssessedHolder,
    AssessedRegion,
    AssessedReservation,
    AssessmentAnswer,
)
from reservoir.manifests.answers.render import to_yaml

if TYPE_CHECKING:
    from reservoir.cli.assessing import Place

_MICRO: Final = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("assess")(assess)


def assess(
    regions: Annotated[
        list[str] | None,
        typer.Option(
            "--region",
            help="A region to look at; may be repeated. Default: that of your settings.",
        ),
    ] = None,
    profiles: Annotated[
        list[str] | None,
        typer.Option("--profile", help="An AWS profile to look with; may be repeated."),
    ] = None,
    within: Annotated[
        str, typer.Option("--ends-within", help="What counts as ending soon: 7d, 30d.")
    ] = "30d",
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="Write a pool and a class that fit to this file."),
    ] = None,
    form: Output = Format.TEXT,
) -> None:
    """Look at reservations before anything is deployed.

    Who uses them, what idles, what is bought on demand beside them, what ends soon. Nothing is written to AWS.
    """
    # imported here, because --help waits for no library of AWS
    from reservoir.adapters.system import SystemClock
    from reservoir.cli.assessing import look, policy_for

    soon = span(within)
    places = _places(regions or [], profiles or [])
    if policy is not None and len(places) > 1:
        fail("a policy is of one place: name one region and one profile")
    now = SystemClock().now()
    found = [look(place, now, soon) for place in places]
    answer = AssessmentAnswer(at=now, regions=[each for each, _ in found])
    print_answer("Assessment", answer, assessment_lines(answer), form)
    if policy is not None:
        _write(policy, to_yaml(policy_for(found[0][1])))
    if all(each.unknown is not None for each in answer.regions):
        fail("nothing could be read")


def _places(regions: Sequence[str], profiles: Sequence[str]) -> "list[Place]":
    """Return each profile in each region; without regions, in the one that its settings name."""
    from botocore.exceptions import BotoCoreError

    from reservoir.adapters.clients import region_of
    from reservoir.cli.assessing import Place

    found: list[Place] = []
    named: Sequence[str | None] = profiles or [None]
    for profile in named:
        try:
            home = region_of(profile)
        except BotoCoreError as error:
            fail(str(error))
        where = regions or [each for each in [home] if each]
        if not where:
            fail(
                "no AWS region is chosen: say --region, set AWS_REGION, or use a profile that has one"
            )
        found += [Place(profile, region) for region in where]
    return found


def _write(file: Path, text: str) -> None:
    if not text.strip() or text.strip() == "[]":
        messages().print(
            f"{file} is not written: there is no reservation that a pool could use"
        )
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
    messages().print(
        f"{file}: put your own role, subnets and security groups in, then reservoir validate -f {file}"
    )


def assessment_lines(answer: AssessmentAnswer) -> Iterator[Line | str]:
    """Yield the lines of all places."""
    for region in answer.regions:
        where = (
            region.region
            if region.profile is None
            else f"{region.region} as {printable(region.profile)}"
        )
        if region.unknown is not None:
            yield f"{where}: not known: {printable(region.unknown)}"
            continue
        yield from _sums(where, region)
        yield from _tables(region)
        for note in region.notes:
            yield f"note: {printable(note)}"


def _sums(where: str, region: AssessedRegion) -> Iterator[str]:
    free = sum(each.free for each in region.reservations)
    units = sum(each.total for each in region.reservations)
    idle = _sum([each.idle_micro_usd_per_hour for each in region.reservations])
    fit = sum(each.fit for each in region.beside)
    paid = _sum([each.micro_usd_per_hour for each in region.beside])
    soon = sum(each.ends_soon for each in region.reservations)
    yield f"{where}: {units} units in {_number(len(region.reservations), 'reservation')}"
    yield f"  {free} free, {_usd(idle)} an hour idle"
    yield f"  {_number(fit, 'instance')} on demand would fit them, {_usd(paid)} an hour"
    yield f"  {_number(soon, 'reservation')} will end soon"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _tables(region: AssessedRegion) -> Iterator[Line | str]:
    reservations: tuple[Column[AssessedReservation], ...] = (
        Column("RESERVATION", lambda row: row.id),
        Column("TYPE", lambda row: printable(row.instance_type)),
        Column("ZONE", lambda row: row.zone, leaves=2),
        Column("STATE", lambda row: row.state, leaves=1),
        Column("FREE", lambda row: f"{row.free} of {row.total}", is_number=True),
        Column(
            "IDLE USD/H", lambda row: _amount(row.idle_micro_usd_per_hour), is_number=True
        ),
        Column(
            "ENDS",
            lambda row: "-" if row.end_at is None else f"{row.end_at:%Y-%m-%d}",
            leaves=3,
        ),
        Column("USED BY", lambda row: _who(row.holders), gives_way=True),
    )
    beside: tuple[Column[AssessedBeside], ...] = (
        Column("ON DEMAND", lambda row: f"{row.instances} {printable(row.instance_type)}"),
        Column("ZONE", lambda row: row.zone),
        Column("FIT", lambda row: str(row.fit), is_number=True),
        Column("USD/H", lambda row: _amount(row.micro_usd_per_hour), is_number=True),
        Column("WHOSE", lambda row: _who(row.holders), gives_way=True),
    )
    if region.reservations:
        yield from lines_of(region.reservations, reservations, terminal_width())
    if region.beside:
        yield from lines_of(region.beside, beside, terminal_width())


def _who(holders: Sequence[AssessedHolder]) -> str:
    return (
        ", ".join(f"{printable(each.holder)} x{each.instances}" for each in holders)
        or "nobody"
    )


def _sum(amounts: Sequence[int | None]) -> int | None:
    return None if None in amounts else sum(each for each in amounts if each is not None)


def _amount(micro_usd: int | None) -> str:
    return "?" if micro_usd is None else f"{micro_usd / _MICRO:,.2f}"


def _usd(micro_usd: int | None) -> str:
    return "not known" if micro_usd is None else f"{_amount(micro_usd)} USD"
