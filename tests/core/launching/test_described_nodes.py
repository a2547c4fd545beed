"""A node that is described once while it stays as it is, and never shown as it was."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim, workload
from reservoir.core.launching.claim_nodes import is_held
from reservoir.core.launching.described_nodes import DescribedNodes
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    DrainReason,
    NodeClaim,
)
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources

NOW = START + timedelta(hours=1)
TRAIN = workload()
RUNNING = node_claim("nc-1", state=ClaimState.RUNNING)
REPLACEMENT = node_claim("nc-2", replaces=("nc-1",))
MARK = DisruptionMark("d-1", DrainReason.CONSOLIDATION, START, 1)


def described(
    it: DescribedNodes,
    claims: Mapping[str, NodeClaim],
    train: Workload = TRAIN,
    *pools: str,
) -> tuple[Node, ...]:
    return it.nodes(claims, {TRAIN.key: train}, frozenset(pools or ("gpu",)), NOW)


def test_what_stays_as_it_is_is_described_once() -> None:
    it, claims = DescribedNodes(), {"nc-1": RUNNING, "nc-2": REPLACEMENT}
    first = described(it, claims)
    claims["nc-2"] = replace(REPLACEMENT, revision=2)
    second = described(it, claims)
    assert second[0] is first[0]
    assert second[1] is not first[1]


@pytest.mark.parametrize(
    ("claim", "train", "pool"),
    [
        ({"placements": ()}, {}, "gpu"),
        ({"state": ClaimState.DRAINING}, {}, "gpu"),
        ({"disruption": MARK}, {}, "gpu"),  # the replacement beside it is held from now on
        ({"cordoned": True}, {}, "gpu"),
        ({}, {"requests": Resources.of({"cpu": 1})}, "gpu"),
        ({}, {}, "another"),
    ],
)
def test_any_change_is_seen(
    claim: dict[str, Any], train: dict[str, Any], pool: str
) -> None:
    before = {"nc-1": RUNNING, "nc-2": REPLACEMENT}
    after = {**before, "nc-1": replace(RUNNING, **claim) if claim else RUNNING}
    other = replace(TRAIN, **train) if train else TRAIN
    it = DescribedNodes()
    stale = described(it, before)

    warm = described(it, after, other, pool)

    assert warm == described(DescribedNodes(), after, other, pool) != stale


def test_a_node_that_is_gone_is_forgotten() -> None:
    it = DescribedNodes()
    first = described(it, {"nc-1": RUNNING})
    assert described(it, {}) == ()
    assert described(it, {"nc-1": RUNNING})[0] is not first[0]


MARKED = replace(RUNNING, disruption=MARK)
EXPECTING = node_claim(
    "nc-2",
    placements=(),
    replaces=("nc-1",),
    expected=(PlacedReplicas("research/train", 1),),
)


@pytest.mark.parametrize(
    ("replacement", "old", "held"),
    [
        (EXPECTING, MARKED, True),
        # a listing shows the replacement, and of the other row not yet that it is marked
        (EXPECTING, RUNNING, True),
        (replace(EXPECTING, expected=()), MARKED, True),
        # its command was abandoned
        (replace(EXPECTING, expected=()), RUNNING, False),
        # it drains, so its replicas have been handed over
        (EXPECTING, replace(MARKED, state=ClaimState.DRAINING), False),
    ],
)
def test_room_on_a_replacement_is_for_the_replicas_that_it_expects(
    replacement: NodeClaim, old: NodeClaim, held: bool
) -> None:
    assert is_held(replacement, {"nc-1": old, "nc-2": replacement}) is held
