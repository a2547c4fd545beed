"""The handler of disruption: one pass a call, its numbers as metrics."""

import json

import pytest

from functions.disrupt.handler import handler
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState


def metrics(text: str) -> dict[str, float]:
    """Return the metrics that were written, by name."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith('{"_aws"'):
            written = json.loads(line)
            names = [
                each["Name"] for each in written["_aws"]["CloudWatchMetrics"][0]["Metrics"]
            ]
            found |= {name: sum(written[name]) for name in names}
    return found


def test_the_schedule_moves_work_into_a_unit_that_is_free(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    world.resize("cr-1", 2)
    monkeypatch.setattr("functions.disrupt.handler.disrupt", world.disrupt)
    seen = []
    for _ in range(3):
        world.settle()
        capsys.readouterr()
        handler({"source": "aws.events"}, None)
        seen.append(metrics(capsys.readouterr().out))
    assert [each.get("NodesBeingReplaced", 0) for each in seen] == [1, 0, 0]
    assert [each.get("NodesDisrupted", 0) for each in seen] == [0, 0, 1]
    assert [c.state for c in world.claims()].count(ClaimState.DRAINING) == 1
