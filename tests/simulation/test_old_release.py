"""Functions of the release before read rows without what is new, and are replaced one after the other."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.values import node_claim, workload_record
from lab.simulation.kernel import Chance, Kernel
from lab.simulation.old_release import Upgrade, as_it_knows, behind_old
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.names import Function
from reservoir.ports.policy import Pause, PolicyKind, PolicyObject

NEW_CLAIM: NodeClaim = node_claim(
    "nc-1", finished=(PlacedReplicas("research/train", 1),), cordoned=True
)
OLD_CLAIM: NodeClaim = replace(NEW_CLAIM, finished=(), cordoned=False)
POOL = PolicyObject(PolicyKind.NODE_POOL, "pool", {}, 1, 1, pause=Pause(is_paused=True))
RECORD = replace(workload_record(), sent_by=None, sent_at=None)
TEAM = replace(POOL, kind=PolicyKind.TEAM, name="vision")


@pytest.mark.parametrize(
    ("answer", "understood"),
    [
        (NEW_CLAIM, OLD_CLAIM),
        ({"nc-1": NEW_CLAIM}, {"nc-1": OLD_CLAIM}),
        ((NEW_CLAIM, NEW_CLAIM), (OLD_CLAIM, OLD_CLAIM)),
        ((POOL, TEAM), (replace(POOL, pause=Pause()),)),
        (replace(RECORD, finished_count=2, sent_by="AROA"), RECORD),
        (timedelta(1), timedelta(1)),
    ],
    ids=["a claim", "claims by id", "claims", "policy", "a workload", "what is no row"],
)
def test_it_reads_what_it_knows_of_rows_and_no_teams(answer: Any, understood: Any) -> None:
    assert as_it_knows(answer) == understood


def test_its_processes_read_tables_so_and_reach_all_else_as_it_is() -> None:
    class Store:
        def get(self, _key: str) -> NodeClaim:
            return NEW_CLAIM

    behind = dict.fromkeys(("node_claims", "workloads", "policy", "tallies"), Store())
    old = behind_old(behind)
    assert old["node_claims"].get("nc-1") == OLD_CLAIM
    assert old["tallies"].get("nc-1") == NEW_CLAIM


def upgrade(*, is_made: bool) -> tuple[Kernel, Upgrade, list[Function]]:
    kernel, replaced = Kernel(), list[Function]()
    return kernel, Upgrade(kernel, Chance(1), replaced.append, is_made), replaced


def test_every_function_that_it_had_is_replaced_and_some_are_taken_back_for_a_while() -> (
    None
):
    kernel, release, replaced = upgrade(is_made=True)
    release.begin()
    assert Function.PROVISION in release.old
    assert Function.FOLLOW not in release.old, "it had none"
    had, taken_back = set(release.old), 0
    while kernel.step():
        taken_back += replaced[-1] in release.old
    assert (set(replaced), release.old) == (had, set())
    assert 0 < taken_back < len(had)
    assert len(replaced) == len(had) + 2 * taken_back


def test_what_is_left_is_replaced_at_once_when_mishaps_stop() -> None:
    kernel, release, replaced = upgrade(is_made=True)
    release.begin()
    kernel.step()
    release.finish()
    assert release.old == set()
    count = len(replaced)
    while kernel.step():
        pass
    assert len(replaced) == count, "none twice"


def test_most_seeds_have_no_upgrade() -> None:
    _, release, _ = upgrade(is_made=False)
    release.begin()
    assert release.old == set()
