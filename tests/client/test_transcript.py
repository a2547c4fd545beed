"""The transcript that clients of all languages are played is what the Python client says and hears today."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from reservoir.client import Client
from tests.client.transcript import TRANSCRIPT, client_of, perform, recorded
from tests.client.world import EventsQueue

CONVERSATIONS: list[dict[str, Any]] = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))[
    "conversations"
]


class Replay:
    """Implements ``Outbox``: whatever is sent must be what was sent, and is answered as it was."""

    def __init__(self, conversation: Mapping[str, Any]) -> None:
        self.queue = EventsQueue()
        self.sent: list[Any] = conversation["sent"]
        self.sent_count = 0
        self._listens = conversation["listens"]
        self._questions = count(1)

    def client(self) -> Client:
        """Return a client of a new process."""
        inbox = self.queue if self._listens else None
        return client_of(self, inbox, self.queue, self._questions)

    def send(self, message: Mapping[str, Any]) -> str:
        entry = self.sent[self.sent_count]
        assert message == entry["message"]
        self.sent_count += 1
        self.deliver(entry["facts"])
        return f"sent-{self.sent_count - 1}"

    def deliver(self, facts: list[Any]) -> None:
        for fact in facts:
            self.queue.put(fact["detail-type"], fact["detail"], event_id=fact["id"])


def test_the_transcript_is_what_is_said_today() -> None:
    assert TRANSCRIPT.read_text(encoding="utf-8") == recorded(), (
        "run python -m tests.client.transcript"
    )


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda it: it["name"])
def test_the_python_client_passes(conversation: dict[str, Any]) -> None:
    replay = Replay(conversation)
    client = replay.client()
    for step in conversation["steps"]:
        if "restart" in step:
            client = replay.client()
        elif "deliver" in step:
            replay.deliver(step["deliver"])
        else:
            outcome = perform(client, step)
            wanted = {it: step[it] for it in ("gives", "fails", "handled") if it in step}
            assert outcome == wanted, step
    assert replay.sent_count == len(replay.sent)
    assert len(replay.queue.messages) == conversation["left"]
