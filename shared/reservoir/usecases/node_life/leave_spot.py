"""Workloads that lose more by interruptions than spot gains them rest from spot (rule 8)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.capacity.unavailable_offerings import SpotLossKey
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim, placed_keys
from reservoir.core.node_life.spot_losses import (
    LEFT_SPOT,
    SpotRun,
    after_loss,
    has_lost_more,
    run_of,
)
from reservoir.manifests.replica_events import WorkloadLeftSpot
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.announce import stored_ref


@dataclass(frozen=True, slots=True)
class LeaveSpot:
    """Notes what interruptions cost the workloads on spot nodes."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    offerings: OfferingStore
    shortages: ShortageHistory
    publisher: EventPublisher

    def note(self, interrupted: Sequence[NodeClaim], now: datetime) -> frozenset[str]:
        """Return the workloads that rest from spot now. To be called before the nodes drain.

        Events about workloads that begin to rest are published first: a run that dies in between publishes them again.
        """
        records, _ = unreadable.workloads(self.workloads, placed_keys(interrupted))
        known = {
            key: record.workload
            for key, record in records.items()
            if record.workload is not None
        }
        runs = self._runs(interrupted, now)
        losing = {key for key in known if has_lost_more(known[key], runs.get(key, ()))}
        if not losing:
            return frozenset()
        others = self._runs(self._still_on_spot(interrupted), now)
        left = frozenset(
            key
            for key in losing
            if has_lost_more(known[key], runs[key], others.get(key, ()))
        )
        self._rest({key: records[key] for key in sorted(left)}, now)
        return left

    def _still_on_spot(self, interrupted: Sequence[NodeClaim]) -> list[NodeClaim]:
        going = {claim.id for claim in interrupted}
        return [
            claim
            for claim in self.claims.list_live()
            if claim.state is ClaimState.RUNNING
            and claim.offering.capacity_type is CapacityType.SPOT
            and claim.id not in going
        ]

    def _runs(
        self, claims: Iterable[NodeClaim], now: datetime
    ) -> Mapping[str, list[SpotRun]]:
        """Return the runs of spot nodes by the workloads on them."""
        claims = list(claims)
        types = {claim.offering.instance_type for claim in claims}
        prices = self.offerings.on_demand_prices(types) if types else {}
        runs: dict[str, list[SpotRun]] = {}
        for claim in claims:
            run = run_of(claim, prices, now)
            if run is not None:
                for key in sorted(placed_keys([claim])):
                    runs.setdefault(key, []).append(run)
        return runs

    def _rest(self, leaving: Mapping[str, WorkloadRecord], now: datetime) -> None:
        places = [SpotLossKey(key) for key in leaving]
        if not places:
            return
        known = self.shortages.get_many(places)
        rests = {place: after_loss(known.get(place), now) for place in places}
        begun = [
            WorkloadLeftSpot(
                workload=stored_ref(leaving[place.workload_key]),
                until=rests[place].until,
                times=rests[place].failure_count,
                reason=LEFT_SPOT,
            )
            for place in places
            if rests[place] != known.get(place)
        ]
        if begun:
            self.publisher.publish(begun)
        self.shortages.put(dict(rests.items()))
        for place in places:
            self.offerings.mark_unavailable(
                [place], until=rests[place].until, reason=LEFT_SPOT
            )
