"""EC2 that lives on while nobody looks: instances boot and end, blocks are reclaimed, counts and views lag."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from lab.fakes.discovery import IMAGES, MemoryLaunchEnvironment
from lab.fakes.ec2 import FakeEc2
from lab.simulation.aws.bus import Detail
from lab.simulation.catalogue import ZONES
from lab.simulation.faults import Faults
from lab.simulation.kernel import HOUR, MINUTE, SECOND, Chance, Kernel, instant, moment
from reservoir.core.launching.launch_outcome import (
    LaunchedInstance,
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
)
from reservoir.core.launching.launch_request import LaunchOverride, LaunchRequest
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    LentUnits,
    ReservationKind,
)
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import SelectorTerm, Subnet
from reservoir.names import BATCH_TAG
from reservoir.ports.ec2 import InstanceHealth, TerminationReceipt
from reservoir.ports.errors import IdempotencyMismatchError, ThrottledError

# The product takes half a minute for the lag of a reservation's count; clocks may be two seconds off, twice.
COUNT_LAG_MAX: Final = 24 * SECOND
_VIEW_LAG_MAX: Final = 10 * SECOND
_SCRUB_MAX: Final = 10 * MINUTE
SUBNETS: Final = {f"subnet-{zone[-1]}": (zone, zone_id) for zone, zone_id in ZONES}
_TOKEN_LIFETIME_S: Final = 24 * 3600


class SimulatedNetwork(MemoryLaunchEnvironment):
    """What a class selects; subnets have as many addresses as EC2 has left in them."""

    def __init__(self, ec2: "SimulatedEc2") -> None:
        super().__init__((), ("sg-1",), IMAGES[:1])
        self._ec2 = ec2

    def subnets(self, terms: Sequence[SelectorTerm]) -> tuple[Subnet, ...]:
        """DescribeSubnets."""
        if not terms:
            return ()
        free = {key: self._ec2.free_addresses(key) for key in SUBNETS}
        return tuple(
            Subnet(key, *place, 4000 if (left := free[key]) is None else max(0, left))
            for key, place in SUBNETS.items()
        )


class SimulatedEc2(FakeEc2):
    """One account. ``emit`` puts an event on the default bus."""

    def __init__(
        self,
        kernel: Kernel,
        chance: Chance,
        faults: Callable[[], Faults],
        emit: Callable[[str, Detail], None],
    ) -> None:
        super().__init__(kernel, token_lifetime_s=_TOKEN_LIFETIME_S)
        self._kernel = kernel
        self._chance = chance
        self._faults = faults
        self._emit = emit
        # when, total and available, by reservation
        self._counts: dict[str, deque[tuple[int, int, int, LentUnits | None]]] = {}
        # an older view, and until when it is shown
        self._views: dict[str, tuple[int, Instance]] = {}
        self._scrubbed: dict[str, list[int]] = {}  # until when units of blocks are cleaned
        # reservations from which somebody else took something, ever
        self.touched: set[str] = set()
        self.moved_in: list[
            str
        ] = []  # instances that were moved into reservations of their groups
        # units of others that were promised to us and were not there
        self.refused: list[str] = []
        self.mismatches: list[str] = []  # tokens that came back with other requests
        self.throttled_until = 0
        self.key_denied_until = 0

    # --- launches

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        """CreateFleet."""
        self._lag = timedelta(0)
        if self._chance.hits("view_lags", self._faults().view_lags):
            self._lag = timedelta(microseconds=self._chance.between("view", SECOND, MINUTE))
        if self._kernel.now_us < self.throttled_until:
            raise ThrottledError("RequestLimitExceeded", "CreateFleet")
        if request.target is None and self._chance.hits(
            "runs_dry", self._faults().runs_dry
        ):
            self._run_dry(request)
        try:
            outcome = super().launch(request, client_token)
        except IdempotencyMismatchError:
            self.mismatches.append(
                f"{client_token} came back with another request of {request.tags[BATCH_TAG]}"
            )
            raise
        self.note_counts()
        return outcome

    def _run_dry(self, request: LaunchRequest) -> None:
        """Let what is asked for be used up, in one zone or in all, for some minutes."""
        asked = [
            (each.instance_type, each.zone_id, each.capacity_type)
            for each in request.offerings
        ]
        for place in asked[: self._chance.between("runs_dry", 1, len(asked))]:
            self.pool_sizes[place] = self.bought(place) + self._chance.between(
                "runs_dry", 0, 1
            )
            self._kernel.after(
                self._chance.between("runs_dry", MINUTE, 15 * MINUTE),
                partial(self._refill, place),
            )

    def _refill(self, place: tuple[str, str, CapacityType]) -> None:
        self.pool_sizes.pop(place, None)

    def _launch(self, request: LaunchRequest) -> LaunchOutcome:
        if request.count > 1 and self._chance.hits(
            "partly_launched", self._faults().partly_launched
        ):
            request = replace(
                request, count=self._chance.between("partly_launched", 1, request.count - 1)
            )
        return super()._launch(request)

    def _room_in_pool(
        self, request: LaunchRequest, override: LaunchOverride, wanted: int
    ) -> tuple[int, LaunchError | None]:
        count, refusal = super()._room_in_pool(request, override, wanted)
        target = request.target
        if (
            refusal is not None
            and refusal.kind is LaunchErrorKind.RESERVATION_EXHAUSTED
            and target is not None
        ):
            reservation = self.reservations[target.reservation_id]
            if (
                target.reservation_id not in self.touched
                and reservation.state == ACTIVE
                and not request.refills_slot
            ):
                self.refused.append(
                    f"{reservation.id} has {count} of {wanted} units for {request.tags[BATCH_TAG]}"
                )
        return count, refusal

    def _start(self, request: LaunchRequest, override: LaunchOverride) -> LaunchedInstance:
        launched = super()._start(request, override)
        self._boot(launched.id)
        return launched

    def _boot(self, instance_id: str) -> None:
        if self._kernel.now_us < self.key_denied_until:
            self._kernel.after(
                5 * SECOND, lambda: self._end(instance_id, "Client.InternalError")
            )
        elif self._chance.hits("never_runs", self._faults().never_runs):
            if self._chance.stream("boot").random() < 0.5:  # else it stays pending
                self._kernel.after(
                    30 * SECOND, lambda: self._end(instance_id, "Server.InternalError")
                )
        else:
            boot = self._chance.between("boot", 5 * SECOND, MINUTE)
            self._kernel.after(
                boot, lambda: self._become(instance_id, "pending", "running")
            )

    def _become(self, instance_id: str, before: str, after: str) -> None:
        if (
            instance_id in self._launched
            and self._launched[instance_id].instance.state == before
        ):
            self.change(instance_id, state=after)
            self._tell(instance_id, after)
            if after == "running" and self._chance.hits(
                "becomes_unhealthy", self._faults().becomes_unhealthy
            ):
                self._kernel.after(
                    self._chance.between("health", MINUTE, 30 * MINUTE),
                    lambda: self._fail(instance_id),
                )

    def _fail(self, instance_id: str) -> None:
        """Let its status checks fail from now on."""
        if (
            instance_id in self._launched
            and self._launched[instance_id].instance.state == "running"
        ):
            self.unhealthy.append(
                InstanceHealth(instance_id, impaired_since=self._kernel.now())
            )

    # --- ends

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        """TerminateInstances."""
        # in an order that no hash decides
        alive = [each.id for each in self.live() if each.id in instance_ids]
        receipt = super().terminate(instance_ids)
        for instance_id in alive:
            self._wind_up(instance_id)
        return receipt

    def end(self, instance_id: str, why: str) -> None:
        """Let EC2 itself, or its owner, end an instance."""
        if (
            instance_id in self._launched
            and not self._launched[instance_id].instance.is_gone
        ):
            self.change(instance_id, state="shutting-down", state_reason=why)
            self._wind_up(instance_id)

    def tell_of_interruption(self, instance_id: str) -> None:
        """Warn that a spot instance will be taken back."""
        detail = {"instance-id": instance_id, "instance-action": "terminate"}
        self._emit("EC2 Spot Instance Interruption Warning", detail)

    def tell_of_reclamation(self, instance_id: str, due_at: datetime) -> None:
        """Warn that an instance in an interruptible reservation will be taken back."""
        detail = {
            "instance-id": instance_id,
            "instance-action": "terminate",
            "instance-termination-time": due_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self._emit("EC2 Capacity Reservation Instance Interruption Warning", detail)

    def _end(self, instance_id: str, why: str) -> None:
        if (
            instance_id in self._launched
            and self._launched[instance_id].instance.state == "pending"
        ):
            self.end(instance_id, why)

    def _wind_up(self, instance_id: str) -> None:
        self._tell(instance_id, "shutting-down")
        self.unhealthy = [
            health for health in self.unhealthy if health.instance_id != instance_id
        ]
        self._kernel.after(
            self._chance.between("end", 3 * SECOND, 90 * SECOND),
            lambda: self._gone(instance_id),
        )

    def _gone(self, instance_id: str) -> None:
        instance = self._launched[instance_id].instance
        self.change(instance_id, state="terminated")
        reservation = self.reservations.get(instance.capacity_reservation_id or "")
        if reservation is not None and reservation.kind is ReservationKind.CAPACITY_BLOCK:
            until = self._kernel.now_us + self._chance.between("scrub", MINUTE, _SCRUB_MAX)
            self._scrubbed.setdefault(reservation.id, []).append(until)
            self._kernel.at(until, self.note_counts)
        self.note_counts()
        self._tell(instance_id, "terminated")
        self._kernel.after(HOUR, lambda: self.forget(instance_id))

    def _tell(self, instance_id: str, state: str) -> None:
        self._emit(
            "EC2 Instance State-change Notification",
            {"instance-id": instance_id, "state": state},
        )

    # --- what is shown

    def change(self, instance_id: str, **changes: object) -> None:
        """Change an instance; views of it may lag."""
        if self._chance.hits("view_lags", self._faults().view_lags):
            until = self._kernel.now_us + self._chance.between(
                "view", SECOND, _VIEW_LAG_MAX
            )
            self._views[instance_id] = (until, self._launched[instance_id].instance)
        super().change(instance_id, **changes)

    def truth(self, instance_id: str) -> Instance | None:
        """Return an instance as it is, if it ever was and is not forgotten."""
        launched = self._launched.get(instance_id)
        return None if launched is None else launched.instance

    def knows(self, client_token: str) -> bool:
        """Whether a launch with this token was made."""
        return client_token in self._tokens

    def seems_gone(self, instance_id: str) -> bool:
        """Whether views do not show the instance yet."""
        return self._launched[instance_id].shown_at > self._kernel.now()

    def _seen(self, instance: Instance) -> Instance:
        until, before = self._views.get(instance.id, (0, instance))
        return before if self._kernel.now_us < until else instance

    def get_many(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        """DescribeInstances by id."""
        return {
            key: self._seen(instance)
            for key, instance in super().get_many(instance_ids).items()
        }

    def _shown(self) -> list[Instance]:
        return [self._seen(instance) for instance in super()._shown()]

    def free_units(self, reservation_id: str) -> int:
        """Return the units that a launch could have now: not those of instances that are ending, or being scrubbed."""
        reservation = self.reservations.get(reservation_id)
        if reservation is None or reservation.state != ACTIVE:
            return 0
        scrubbed = sum(
            until > self._kernel.now_us for until in self._scrubbed.get(reservation_id, ())
        )
        return reservation.total_count - self.used_units(reservation_id) - scrubbed

    def used_units(self, reservation_id: str) -> int:
        """Return how many instances are in a reservation, anybody's, until they have terminated."""
        return sum(
            each.instance.capacity_reservation_id == reservation_id
            and each.instance.state != "terminated"
            for each in self._launched.values()
        )

    def note_counts(self) -> None:
        """Remember what the reservations' counts are from now on."""
        now = self._kernel.now_us
        for key, reservation in self.reservations.items():
            available = max(0, self.free_units(key))
            seen = self._counts.setdefault(key, deque(maxlen=50))
            counts = reservation.total_count, available, reservation.lent
            if not seen or seen[-1][1:] != counts:
                seen.append((now, *counts))

    def list_visible(self) -> tuple[CapacityReservation, ...]:
        """DescribeCapacityReservations; counts may be some seconds old."""
        lag = 0
        if self._chance.hits("count_lags", self._faults().count_lags):
            lag = self._chance.between("count", 0, COUNT_LAG_MAX)
        shown = []
        for key in sorted(self.reservations):
            at = self._kernel.now_us - lag
            known = self._counts[key]
            _, total, available, lent = next(
                (each for each in reversed(known) if each[0] <= at), known[0]
            )
            shown.append(
                replace(
                    self.reservations[key],
                    total_count=total,
                    available_count=available,
                    lent=lent,
                )
            )
        return tuple(shown)

    # --- reservations

    def reserve(self, reservation: CapacityReservation) -> None:
        """Let a reservation be, and take its course if it begins or ends at a time."""
        self.reservations[reservation.id] = reservation
        self.note_counts()
        if reservation.start_at is not None and reservation.start_at > self._kernel.now():
            self._kernel.at(
                instant(reservation.start_at), lambda: self._begin(reservation.id)
            )
        self._plan_end(reservation)

    def put(self, reservation: CapacityReservation) -> None:
        """Let a reservation be as it is from now on."""
        super().put(reservation)
        self.note_counts()

    def join(self, reservation_id: str, group_arn: str) -> None:
        """Let a reservation be a member of a group; EC2 takes minutes to move instances in, sometimes many."""
        is_new = reservation_id not in self.groups.get(group_arn, set())
        super().join(reservation_id, group_arn)
        if is_new:
            late = self._chance.between("moves in", SECOND, 20 * MINUTE)
            self._kernel.after(late, self._move_in)

    def _move_in(self) -> None:
        self.moved_in += self.move_into_groups()
        self.note_counts()

    def alter(self, reservation_id: str, **changes: object) -> None:
        """Let its owner change a reservation; EC2 tells of that by CloudTrail, which this account does not have."""
        changed = replace(self.reservations[reservation_id], **changes)  # type: ignore[arg-type] # names of fields
        self.reservations[reservation_id] = changed
        if "end_at" in changes:
            self._plan_end(changed)
        if changed.state != ACTIVE:
            self._let_go(reservation_id)
        self.note_counts()

    def _begin(self, reservation_id: str) -> None:
        self.alter(reservation_id, state=ACTIVE)
        kind = self.reservations[reservation_id].kind
        name = (
            "Capacity Block Reservation Delivered"
            if kind is ReservationKind.CAPACITY_BLOCK
            else ""
        )
        self._emit(
            name or "EC2 Capacity Reservation Active",
            {"capacity-reservation-id": reservation_id},
        )

    def _plan_end(self, reservation: CapacityReservation) -> None:
        if reservation.end_at is None:
            return
        reclaim_at = reservation.reclaim_at()
        if reclaim_at is not None:
            self._kernel.at(
                instant(reclaim_at),
                lambda: self._reclaim(reservation.id, instant(reclaim_at)),
            )
        self._kernel.at(instant(reservation.end_at), lambda: self._expire(reservation.id))

    def _reclaim(self, reservation_id: str, at_us: int) -> None:
        reclaim_at = self.reservations[reservation_id].reclaim_at()
        if reclaim_at != moment(at_us):
            return  # it was extended
        for instance in self.live():
            if instance.capacity_reservation_id == reservation_id:
                self.end(instance.id, "Server.CapacityBlockExpired")

    def _expire(self, reservation_id: str) -> None:
        reservation = self.reservations[reservation_id]
        if reservation.end_at is not None and reservation.end_at <= self._kernel.now():
            self.alter(reservation_id, state="expired")

    def _let_go(self, reservation_id: str) -> None:
        """Instances outlive a reservation that is not a block; they are on-demand instances from then on."""
        for instance in self.live():
            if instance.capacity_reservation_id == reservation_id:
                self.change(instance.id, capacity_reservation_id=None)
