"""What is known of the world does not depend on the order in which facts arrive: EventBridge keeps none."""

from itertools import permutations
from typing import Any

from lab.demo.observer import Observed

WEB = {"namespace": "story", "name": "web"}


def fact(kind: str, **detail: Any) -> dict[str, Any]:
    return {"detail-type": kind, "detail": detail}


PLACED_TWICE = fact(
    "Workload Placed",
    workload=WEB,
    replicas=8,
    nodes=[{"nodeClaim": "nc-runs"}, {"nodeClaim": "nc-refused"}],
)
LAUNCHED = fact("Node Launched", node={"nodeClaim": "nc-runs"})
REFUSED = fact(
    "Launch Failed", nodeClaims=["nc-refused"], workloads=[WEB | {"replicas": 4}]
)


def test_an_answer_that_overtakes_its_question_is_an_answer() -> None:
    for order in permutations([PLACED_TWICE, LAUNCHED, REFUSED]):
        seen = Observed()
        for event in order:
            seen.note(event)
        assert seen.awaited == set()
        assert seen.placed["story/web"] == 4


def test_a_claim_is_awaited_until_it_is_launched_or_refused() -> None:
    seen = Observed()
    seen.note(PLACED_TWICE)
    assert seen.awaited == {"nc-runs", "nc-refused"}
    seen.note(LAUNCHED)
    assert seen.awaited == {"nc-refused"}
    assert not seen.all_run({"story/web": 8})
    seen.note(REFUSED)
    assert seen.awaited == set()
    assert not seen.all_run({"story/web": 8})
