"""``reservoir ui``: what the page says is what the commands say, and only this machine's browser may ask."""

import http.client
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.fakes.stores.accounts import MemoryAccounts
from reservoir.cli.app import app
from reservoir.cli.report.figures import Point
from reservoir.cli.ui.lanes import Window, lanes
from reservoir.cli.ui.page import page, ticks
from reservoir.cli.ui.picture import take, waits
from reservoir.cli.ui.server import Server
from reservoir.core.history.past_event import PastEvent
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.what_if.added_capacity import parse_added_capacity
from reservoir.manifests.answers.explanations import WaitingReplicas
from reservoir.manifests.event_parts import OfferingDetail
from reservoir.ports.errors import RefusedError
from reservoir.usecases.listing.list_nodes import ListNodes
from reservoir.usecases.listing.list_reservations import ListReservations
from reservoir.usecases.listing.list_workloads import ListWorkloads
from tests.cli.see.test_status import Broken, Stack, connected, stack
from tests.cli.world_stack import invoke

__all__ = ["stack"]

DAY = timedelta(days=1)
BYTES_MAX = 300_000
EVIL = "<script>alert('x')</script>"


@pytest.fixture
def paid(stack: Any) -> Any:
    """With accounts, samples of the last hours, and an event with a name that somebody made up."""
    stack.accounts = MemoryAccounts()
    now = stack.clock.now()
    there = drawn(stack).there
    for number in range(12):
        sample = type(there)(now - timedelta(minutes=10 * (12 - number)), *_parts(there))
        stack.history.keep_sample(sample)
    detail = {"nodeClass": "gpu", "reason": "UnauthorizedOperation", "message": EVIL}
    stack.history.keep(
        [PastEvent("e-2", now - timedelta(hours=1), "Launches Blocked", detail)]
    )
    return stack


def _parts(sample: Any) -> tuple[Any, ...]:
    return sample.reservations, sample.markets, sample.waiting, sample.bought, sample.teams


def drawn(stack: Any) -> Any:
    return take(connected(stack), DAY, 2 * DAY)


def lane_of(picture: Any, name: str) -> Any:
    return next(lane for lane in picture.lanes if lane.row.metadata.name == name)


class Text(HTMLParser):
    """What a page says, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.wanted: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        if named.get("id"):
            self.ids.append(str(named["id"]))
        if tag == "section":
            self.wanted.append(str(named["aria-labelledby"]))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(text: str) -> Text:
    found = Text()
    found.feed(text)
    return found


def test_the_page_says_what_status_says(paid: Any) -> None:
    said = " ".join("".join(read(page(drawn(paid))).words).split())
    there = json.loads(invoke(paid, "status", "-o", "json").stdout)["there"]
    ours, units = (
        sum(it[key] for it in there["reservations"]) for key in ("ours", "total")
    )
    assert f"{ours} of {units} reserved units are ours" in said
    per_hour = sum(it["microUsdPerHour"] for it in there["markets"]) / 1_000_000
    assert (
        f"{per_hour:,.2f} USD an hour, now" in said
        or f"{per_hour:,.2f} USDan hour, now" in said
    )
    assert f"{sum(it['replicas'] for it in there['waiting'])} replicas wait." in said
    assert "Alarms: Reservoir-DemandAge" in said


def test_a_lane_goes_from_begin_to_end_with_those_who_hold_it(paid: Any) -> None:
    block, other = lane_of(drawn(paid), "cr-block"), lane_of(drawn(paid), "cr-1")
    assert block.length < 1000, "it ends tomorrow"
    assert block.drain is not None
    assert block.start + block.length > block.drain
    assert (other.start, other.length) == (0, 1000), "it has neither begin nor end"
    (holder,) = other.bars
    assert (holder.workload.partition("/")[2], holder.units) == ("train", 1)
    assert holder.start + holder.length == drawn(paid).window.place(paid.clock.now())


def test_what_is_past_is_drawn_where_it_is_known(paid: Any) -> None:
    picture = drawn(paid)
    cells = lane_of(picture, "cr-1").cells
    now = picture.window.place(paid.clock.now())
    assert cells[-1].start + cells[-1].length == now
    assert (cells[-1].ours_percent, cells[-1].others_percent) == (100, 0)
    assert cells[0].start > 0, "of the day before the first sample nothing is known"


def test_a_reservation_that_had_ended_is_not_drawn_after_it(stack: Any) -> None:
    now = stack.clock.now()
    window = Window(now - DAY, now, now + DAY)
    (row,) = ListReservations(stack.reservations, stack.node_claims).list(["cr-1"])
    gone = [Point(now - DAY, 1, 0, 0), Point(now - DAY / 2, 0, 0, 0, there=False)]
    (lane,) = lanes(window, [row], [], {}, {"cr-1": gone}, lambda _: "")
    (cell,) = lane.cells
    assert (cell.start, cell.start + cell.length) == (0, window.place(now - DAY / 2))


def test_who_drains_is_drawn_until_the_deadline(stack: Any) -> None:
    now = stack.clock.now()
    window = Window(now - DAY, now, now + DAY)
    (row,) = ListReservations(stack.reservations, stack.node_claims).list(["cr-1"])
    nodes = [
        node.model_copy(
            update={
                "status": node.status.model_copy(update={"drain_deadline": now + DAY / 2})
            }
        )
        for node in ListNodes(stack.node_claims).list()
    ]
    (lane,) = lanes(window, [row], nodes, {}, {}, lambda _: "research")
    (bar,) = lane.bars
    assert bar.start + bar.length == window.place(now + DAY / 2)
    assert bar.team == "research"


def test_what_waits_has_the_command_that_tries_what_would_help(stack: Any) -> None:
    rows = ListWorkloads(stack.workloads, stack.node_claims).list().rows
    (row,) = (each for each in rows if each.metadata.name == "too-large")
    (hopeless,) = waits([row], lambda _: "research")
    assert (hopeless.replica_count, hopeless.team, hopeless.helps) == (
        3,
        "research",
        None,
    ), "nothing is near"
    assert (
        hopeless.explained_by
        == f"reservoir explain workload {row.metadata.namespace}/too-large"
    )
    nearest = OfferingDetail(
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        zone_id="use1-az1",
        capacity_type=CapacityType.RESERVED,
    )
    full = WaitingReplicas(
        replicas=3, reason=ReasonCode.RESERVATION_FULL, message="", nearest_offering=nearest
    )
    status = row.status.model_copy(update={"waiting": [full]})
    (helped,) = waits([row.model_copy(update={"status": status})], lambda _: "")
    assert (
        helped.helps
        == "reservoir plan -f too-large.yaml --with '3 p5.48xlarge in us-east-1a'"
    )
    assert parse_added_capacity("3 p5.48xlarge in us-east-1a", stack.clock.now()).count == 3


def test_every_command_on_the_page_is_one_that_there_is(paid: Any) -> None:
    commands = re.findall(r"<code>(reservoir [^<]*)</code>", page(drawn(paid)))
    assert len(commands) > 8
    for command in commands:
        verb = command.split()[1]
        assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0, command
    for asked in (
        "get reservations,calendar",
        "get workloads -A --state waiting",
        "events",
        "status",
    ):
        assert f"reservoir {asked}" in commands
        assert invoke(paid, *asked.split()).exit_code == 0, asked


def test_the_page_is_whole_and_escapes_what_people_wrote(paid: Any) -> None:
    text = page(drawn(paid))
    found = read(text)
    assert EVIL not in text
    assert "script" not in found.tags
    assert not re.search(r"(src|href)=\"?(?!#|/\")[a-z]+:", text), "nothing is fetched"
    assert set(found.wanted) <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))


def test_what_a_source_does_not_say_leaves_the_rest(paid: Any) -> None:
    paid.accounts = paid.history = paid.policy = Broken()
    said = "".join(read(page(drawn(paid))).words)
    assert "not known: samples: AccessDeniedException" in said
    assert "a team that is not known" in said
    assert "cr-block" in said
    paid.reservations = Broken()
    said = "".join(read(page(drawn(paid))).words)
    assert "What there is, is not known" in said
    assert "0.00 USD" not in said, "what is not known is never nought"


def test_a_large_fleet_has_a_page_of_300_kb_at_most(paid: Any) -> None:
    world = paid.clock.now()
    picture = drawn(paid)
    (lane,) = (each for each in picture.lanes if each.row.metadata.name == "cr-1")
    (cell, bar) = lane.cells[0], lane.bars[0]
    many = type(lane)(**{**_fields(lane), "cells": (cell,) * 48, "bars": (bar,) * 8})
    wait = picture.waits[0]
    teams = picture.teams or [object()]
    large = type(picture)(
        **{
            **_fields(picture),
            "lanes": [many] * 500,
            "waits": [wait] * 5000,
            "teams": list(teams) * 500,
        }
    )
    text = page(large)
    assert len(text.encode()) <= BYTES_MAX
    assert "of 500, the dearest idle first" in text
    assert world == picture.window.now


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def test_the_axis_has_seven_ticks_at_most_at_full_hours(stack: Any) -> None:
    now = stack.clock.now()
    for length in (timedelta(hours=3), DAY, 3 * DAY, 40 * DAY, 400 * DAY):
        found = ticks(Window(now - length, now, now + length))
        assert 1 <= len(found) <= 7
    assert {at.minute for _, at in ticks(Window(now - DAY, now, now + 2 * DAY))} == {0}


def test_a_file_instead_of_a_server(paid: Any, tmp_path: Path) -> None:
    file = tmp_path / "now.html"
    result = invoke(paid, "ui", "--html", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert file.read_text().startswith("<!doctype html>")
    assert invoke(paid, "ui", "--html", str(tmp_path)).exit_code == 2
    assert invoke(paid, "ui", "--since", "soon").exit_code == 2


def test_a_block_that_is_to_come_lies_ahead_of_now(stack: Any) -> None:
    now = stack.clock.now()
    (record,) = (
        it for it in stack.reservations.list_current() if it.reservation.id == "cr-block"
    )
    (row,) = ListReservations(stack.reservations, stack.node_claims).list(["cr-block"])
    assert record.reservation.kind is ReservationKind.CAPACITY_BLOCK
    later = row.model_copy(
        update={"spec": row.spec.model_copy(update={"start_at": now + DAY / 2})}
    )
    window = Window(now - DAY, now, now + 2 * DAY)
    (lane,) = lanes(window, [later], [], {}, {}, lambda _: "")
    assert lane.start > window.place(now)


def colours_of(scheme: str) -> dict[str, str]:
    """Return the variables of the page in a scheme."""
    folder = Path(page.__code__.co_filename).parents[1]
    style = (folder / "report/style.css.j2").read_text() + (
        folder / "ui/live.css.j2"
    ).read_text()
    blocks = re.findall(r"(@media[^{]*\{ )?:root \{([^}]*)\}", style)
    found: dict[str, str] = {}
    for media, block in blocks:
        if not media or scheme == "dark":
            found |= dict(re.findall(r"(--[a-z0-9]+): (#[0-9a-f]{3,6})", block))
    return found


def contrast(one: str, other: str) -> float:
    """Return the ratio as WCAG 2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_4_5_and_what_is_drawn_one_of_3(scheme: str) -> None:
    colours = colours_of(scheme)
    for text in ("--ink", "--dim", "--link"):
        assert contrast(colours[text], colours["--page"]) >= 4.5, text
    for drawn_in in (
        "--ours",
        "--others",
        "--free",
        "--drain",
        *(f"--t{number}" for number in range(7)),
    ):
        assert contrast(colours[drawn_in], colours["--page"]) >= 3, drawn_in


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one word."""
    served = Server(lambda: "<p>here</p>", 0)
    thread = Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()


def asked(
    server: Server, method: str = "GET", path: str = "/", host: str | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    headers = {} if host is None else {"Host": host}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), answer.headers
    connection.close()
    return found


@pytest.mark.embedded
def test_the_server_answers_on_this_machine_under_its_own_names(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    for host in (None, f"localhost:{server.server_port}"):
        status, text, headers = asked(server, host=host)
        assert (status, text) == (200, "<p>here</p>")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.embedded
def test_a_name_that_somebody_points_here_is_refused(server: Server) -> None:
    for host in (
        "evil.example",
        f"evil.example:{server.server_port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
    ):
        status, text, _ = asked(server, host=host)
        assert (status, "here" in text) == (403, False), host


@pytest.mark.embedded
def test_only_get_is_answered(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
        status, _, headers = asked(server, method)
        assert (status, headers["Allow"]) == (405, "GET"), method
    assert asked(server, path="/../etc/passwd")[0] == 404


@pytest.mark.embedded
def test_a_refusal_of_aws_is_said_and_the_server_goes_on() -> None:
    def refuse() -> str:
        raise RefusedError("ExpiredToken", "log in again")

    served = Server(refuse, 0)
    Thread(target=served.serve_forever, daemon=True).start()
    for _ in range(2):
        status, text, _ = asked(served)
        assert (status, "ExpiredToken" in text) == (502, True)
    served.shutdown()
    served.server_close()


def test_a_port_that_is_taken_is_said(paid: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("reservoir.cli.ui.server.Server.__init__", taken)
    result = invoke(paid, "ui")
    assert (
        result.exit_code,
        "cannot listen on port 8642: Address already in use" in result.stderr,
    ) == (2, True)
