"""What EC2 leaves without an answer: something else serves within two minutes, and nothing stays launched twice.

Whether EC2 has launched is then seen by the batch's tag alone, and EC2 may show it late.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.adapters.aws_errors import IDEMPOTENCY_CODES, SERVICE_TROUBLE_CODES
from reservoir.core.launching.launch_outcome import LaunchOutcome
from reservoir.core.launching.launch_request import LaunchRequest
from reservoir.core.model.instance_type import CapacityType
from reservoir.ports.errors import (
    AwsError,
    IdempotencyMismatchError,
    UnknownOutcomeError,
)


class Unanswered:
    """EC2, which answers no launch of one market; ``launches`` says whether it launches all the same.

    ``waits_s``: how long it is silent before the connection ends.
    """

    def __init__(
        self,
        world: DisruptWorld,
        market: CapacityType,
        *,
        launches: bool,
        code: str = "InternalError",
        waits_s: int = 0,
    ) -> None:
        self.ec2, self.market, self.launches = world.ec2, market, launches
        self.code, self.waits_s, self.clock = code, waits_s, world.clock

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        is_meant = request.capacity_type is self.market
        if is_meant and not self.launches:
            raise self._nothing()
        outcome = self.ec2.launch(request, client_token)
        if is_meant:
            raise self._nothing()
        return outcome

    def _nothing(self) -> AwsError:
        self.clock.advance(seconds=self.waits_s)
        is_known = self.code in IDEMPOTENCY_CODES
        kind = IdempotencyMismatchError if is_known else UnknownOutcomeError
        return kind(self.code, "CreateFleet")


def launch_all(world: DisruptWorld, fleet: Unanswered) -> timedelta:
    """Plan and launch until nothing is left to launch; return how long it took."""
    began = world.clock.now()
    world.provision().run()
    for _ in range(30):
        if not world.queue.launches:
            world.provision().run()
        if not world.queue.launches:
            break
        batch, delay_s = world.queue.launches.pop(0), world.queue.delays_s.pop(0)
        world.clock.advance(seconds=delay_s)
        replace(world.launch(), fleet=fleet).run(batch)
    return world.clock.now() - began


# An answer with a code of trouble comes at once. Silence ends after 45 seconds (``clients.ONE_LONG_WAIT``).
SILENCES = {
    **dict.fromkeys(sorted(SERVICE_TROUBLE_CODES | IDEMPOTENCY_CODES), 0),
    "ReadTimeoutError": 45,
    "ConnectionClosedError": 3,
}


@pytest.mark.parametrize("code", SILENCES)
@pytest.mark.parametrize("replicas", [1, 3])
def test_what_ec2_does_not_answer_is_launched_elsewhere_within_two_minutes(
    code: str, replicas: int
) -> None:
    world = DisruptWorld("spot", "on-demand")
    world.submit("train", replicas, cpus=1)
    silent = Unanswered(
        world, CapacityType.SPOT, launches=False, code=code, waits_s=SILENCES[code]
    )
    assert launch_all(world, silent) < timedelta(minutes=2)
    assert set(world.types()) == {"m5.large on-demand"}
    (told,) = world.bus.of("Launch Failed")
    assert (told["code"], code in told["message"]) == ("LaunchUnanswered", True)
    assert len(world.ec2.live()) == len(world.types())


@pytest.mark.parametrize("code", SILENCES)
def test_what_ec2_launched_without_an_answer_is_adopted_and_not_launched_again(
    code: str,
) -> None:
    world = DisruptWorld("spot", "on-demand")
    world.submit("train", 1, cpus=1)
    world.ec2.lag = timedelta(minutes=1)
    silent = Unanswered(
        world, CapacityType.SPOT, launches=True, code=code, waits_s=SILENCES[code]
    )
    assert launch_all(world, silent) < timedelta(minutes=2)
    assert world.types() == ["m5.large spot"]
    assert len(world.ec2.live()) == 1


def test_what_ec2_shows_too_late_is_ended_and_costs_a_quarter_of_an_hour_at_most() -> None:
    world = DisruptWorld("spot", "on-demand")
    world.submit("train", 1, cpus=1)
    world.ec2.lag = timedelta(minutes=3)
    silent = Unanswered(world, CapacityType.SPOT, launches=True)
    launch_all(world, silent)
    assert world.types() == ["m5.large on-demand"]
    assert len(world.ec2.live()) == 2

    for _ in range(3):  # as the collector's schedule has it
        world.clock.advance(minutes=5)
        world.collect().run()

    (left,) = world.ec2.live()
    assert [claim.instance_id for claim in world.claims() if claim.is_live] == [left.id]
