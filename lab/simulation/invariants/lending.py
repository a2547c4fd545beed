"""Lending: nothing is lent that a node was promised."""

from typing import Any

from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import WAITING, Invariant
from lab.simulation.world import World


class NothingPromisedIsLent(Invariant):
    """What is lent leaves a free unit for each node that is about to be launched into the same reservation."""

    points = frozenset({"unit_lender.begin", "unit_lender.change"})

    @classmethod
    def concerns(cls, world: World) -> bool:
        return world.lends

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        del environment, point, answer
        ec2 = self.world.ec2
        # which of a batch an instance is for is known later
        launched = {instance.batch_id for instance in ec2.live()}
        for source in ec2.reservations.values():
            if source.lent is None or source.id in ec2.touched:
                continue
            promised = [
                claim.id
                for claim in self.world.state.claim_rows.values()
                if claim.offering.reservation_id == source.id
                and claim.state in WAITING
                and not claim.waits_for_slot
                and claim.batch_id not in launched
            ]
            free = ec2.free_units(source.id)
            if len(promised) > free:
                self.refute(
                    f"{source.id} has {free} free units beside what it lends, for {promised}"
                )
