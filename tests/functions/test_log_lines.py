"""What every line of a log names, so that a message is followed to its instance."""

import json
from io import StringIO
from typing import Any

import pytest

from functions.launch.handler import handler as launch
from shared.core.serialisation.json_codec import dumps
from shared.runtime.batch import QueueMessage, each_message
from shared.runtime.observability import logger
from tests.usecases.launch_world import World, reserved


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What the log is written to."""
    stream = StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    return stream


def lines(written: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def batch(*bodies: str) -> dict[str, Any]:
    return {"Records": [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)]}


def test_every_line_of_a_message_has_its_id_and_no_other_line_has(written: StringIO) -> None:
    def handle(message: QueueMessage) -> None:
        logger.info("handled", extra={"body": message.body})

    each_message(batch("a", "b"), handle)
    logger.info("afterwards")
    assert [(it.get("body"), it.get("message_id")) for it in lines(written)] == [
        ("a", "m-0"),
        ("b", "m-1"),
        (None, None),
    ]


def test_a_launch_names_its_message_its_batch_and_its_claims(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=2)
    monkeypatch.setattr("functions.launch.handler.launch", world.launch)
    planned = world.plan(2, reserved())
    launch(batch(dumps(planned)), None)
    (line,) = (it for it in lines(written) if it["message"] == "batch handled")
    assert (line["message_id"], line["batch_id"], tuple(line["claim_ids"])) == (
        "m-0",
        planned.batch_id,
        planned.claim_ids,
    )
