"""A unit that was lent comes back once: nothing more is taken while it is on its way to its owner."""

from datetime import timedelta

import pytest

from lab.fakes.manifests import team_manifest
from lab.fakes.system import START
from lab.fakes.values import node_claim
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.disruption.methods.reclaim import units_returning
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason, NodeClaim
from reservoir.core.safety.endings import EndingKind

MINUTE = timedelta(minutes=1)


def ended(
    claim_id: str, minute: int, reason: DrainReason = DrainReason.RECLAIMED
) -> NodeClaim:
    return node_claim(
        claim_id,
        state=ClaimState.TERMINATED,
        drain=Drain(f"drain-{claim_id}", reason, START, START),
        terminated_at=START + minute * MINUTE,
    )


def given_out(claim_id: str, minute: int) -> NodeClaim:
    return node_claim(claim_id, created_at=START + minute * MINUTE)


def test_a_unit_is_on_its_way_until_somebody_has_it() -> None:
    now = START + 10 * MINUTE
    assert units_returning([ended("a", 5)], [given_out("b", 1)], now) == {"cr-1": 1}
    assert units_returning([ended("a", 5)], [given_out("b", 6)], now) == {}
    assert units_returning([ended("a", 5), ended("c", 7)], [given_out("b", 6)], now) == {
        "cr-1": 1
    }
    assert units_returning([ended("a", 5), ended("c", 7)], [given_out("b", 8)], now) == {
        "cr-1": 1
    }


def test_a_unit_that_went_to_an_outsider_is_not_waited_for_for_ever() -> None:
    assert units_returning([ended("a", 0)], [], START + 30 * MINUTE) == {"cr-1": 1}
    assert units_returning([ended("a", 0)], [], START + 31 * MINUTE) == {}


def test_what_was_not_taken_back_for_an_owner_is_nobody_s() -> None:
    assert units_returning([ended("a", 0, DrainReason.EMPTY)], [], START + MINUTE) == {}


class Cohort(DisruptWorld):
    """Audio owns one of four units and uses all of them; vision owns two, and has work for one."""

    def __init__(self) -> None:
        super().__init__("reserved")
        self.add_reservation(total_count=4, tags={"purpose": "lent"})
        for name, nominal in (("audio", 1), ("vision", 2)):
            quota = {
                "capacityReservationSelectorTerms": [{"tags": {"purpose": "lent"}}],
                "nominalQuota": nominal,
            }
            self.apply(
                team_manifest(
                    name, namespaces=[name], reclaimWithinCohort="Any", quotas=[quota]
                )
            )
        self.submit("job", namespace="audio", replicas=4, gpus=8)
        self.minutes(2)
        assert self.owners() == ["audio/job"] * 4
        self.submit("job", namespace="vision", replicas=1, gpus=8)

    def owners(self) -> list[str]:
        return sorted(
            placed.workload_key for claim in self.live() for placed in claim.placements
        )

    def taken(self) -> int:
        """Count the nodes that were told to go because their units were lent."""
        return len(
            {
                each["drainId"]
                for each in self.bus.of("Node Draining")
                if each["reason"] == "Reclaimed"
            }
        )

    def scrub(self, unit_count: int) -> None:
        """Let EC2 show so many units fewer than there are, as it does while it scrubs them."""
        self.resize("cr-1", 4 - unit_count)


def test_nothing_more_is_taken_while_a_unit_is_scrubbed() -> None:
    world = Cohort()
    world.minute()
    world.scrub(1)
    for _ in range(10):
        world.minute()
    assert (world.taken(), world.owners()) == (1, ["audio/job"] * 3), (
        "it ended, and EC2 shows it as used"
    )
    world.scrub(0)
    world.minutes(2)
    assert (world.taken(), world.owners()) == (1, ["audio/job"] * 3 + ["vision/job"])


def test_an_owner_that_wants_more_gets_more() -> None:
    world = Cohort()
    world.minutes(3)
    assert world.owners() == ["audio/job"] * 3 + ["vision/job"]
    world.submit("more", namespace="vision", replicas=1, gpus=8)
    world.minutes(3)
    assert world.owners() == ["audio/job"] * 2 + ["vision/job", "vision/more"]
    assert world.taken() == 2


def test_nothing_is_taken_while_nobody_can_say_what_was() -> None:
    world = Cohort()
    world.tallies.unreadable.add(EndingKind.DISRUPTION)
    world.disruption_pass()
    assert world.taken() == 0
    world.tallies.unreadable.clear()
    world.minutes(3)
    assert (world.taken(), world.owners()) == (1, ["audio/job"] * 3 + ["vision/job"])


class ManyOwners(DisruptWorld):
    """Audio uses every unit; each of so many owners owns two, half of them in all, and has just begun to want its own.

    Half of a fleet is what the safety envelope lets go within an hour.
    """

    def __init__(self, count: int) -> None:
        super().__init__("reserved")
        self.names = [f"owner-{number:02}" for number in range(count)]
        self.add_reservation(total_count=4 * count, tags={"purpose": "lent"})
        for name in self.names:
            quota = {
                "capacityReservationSelectorTerms": [{"tags": {"purpose": "lent"}}],
                "nominalQuota": 2,
            }
            self.apply(
                team_manifest(
                    name, namespaces=[name], reclaimWithinCohort="Any", quotas=[quota]
                )
            )
        self.submit("job", namespace="audio", replicas=4 * count, gpus=8)
        self.minutes(2)
        assert self.placed("audio/job") == 4 * count
        for name in self.names:
            self.submit("job", namespace=name, replicas=2, gpus=8)

    def minutes_until_served(self) -> int:
        for minute in range(1, 61):
            self.minute()
            if all(self.placed(f"{name}/job") == 2 for name in self.names):
                return minute
        raise AssertionError("an owner does not get its own within an hour")


@pytest.mark.parametrize("count", [1, 2, 4, 8, 20])
def test_owners_have_their_own_within_minutes_however_many_want_it_at_once(
    count: int,
) -> None:
    """With work that leaves at once, and with work that stays until its deadline, 15 minutes after it was told."""
    world = ManyOwners(count)
    assert world.minutes_until_served() <= 3
    stubborn = ManyOwners(count)
    stubborn.holds_on = True
    assert stubborn.minutes_until_served() <= 18
