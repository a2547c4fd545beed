"""A fleet's claims are parsed once, and only what has changed again."""

import pytest

from lab.bench.functions import fleet_reading
from reservoir.adapters.dynamodb import node_claims
from reservoir.core.serialisation import json_codec


def test_a_warm_listing_parses_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[str]()

    def counting(type_: type, text: str) -> object:
        parsed.append(text)
        return json_codec.loads(type_, text)

    monkeypatch.setattr(node_claims, "loads", counting)

    figures = fleet_reading.run("fleet-reading-1000")

    assert len(parsed) == 1_000 + fleet_reading.CHANGED
    assert figures["replicas"] == 2_000
