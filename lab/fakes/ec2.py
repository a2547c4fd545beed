"""EC2 in memory, as far as the launch and life-of-a-node ports see it: capacity runs out, answers repeat, views lag."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reservoir.adapters.aws_errors import launch_error_kind
from reservoir.core.launching.launch_outcome import (
    LaunchedInstance,
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
)
from reservoir.core.launching.launch_request import (
    LaunchOverride,
    LaunchRequest,
    supports_minimum,
)
from reservoir.core.launching.launch_template import LaunchTemplate, StoredTemplate
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.names import BATCH_TAG, NODE_CLAIM_TAG, OWNER_TAG
from reservoir.ports.ec2 import InstanceHealth, TerminationReceipt
from reservoir.ports.errors import AwsError, IdempotencyMismatchError, ThrottledError
from reservoir.ports.system import Clock

LIFECYCLES = {
    "capacity-block": "capacity-block",
    "interruptible": "interruptible-capacity-reservation",
}


@dataclass
class _Launched:
    instance: Instance
    shown_at: datetime


class FakeEc2:
    """Implements every port of ``reservoir.ports.ec2``."""

    def __init__(
        self, clock: Clock, *, lag_s: int = 0, token_lifetime_s: int = 3600
    ) -> None:
        self._clock = clock
        self.lag = timedelta(seconds=lag_s)
        self._token_lifetime = timedelta(seconds=token_lifetime_s)
        self._tokens: dict[str, tuple[LaunchRequest, LaunchOutcome, datetime]] = {}
        self._launched: dict[str, _Launched] = {}
        self._started_count = 0
        self.reservations: dict[str, CapacityReservation] = {}
        self.pool_sizes: dict[tuple[str, str, CapacityType], int] = {}
        # subnet id -> addresses in all, of those that run out
        self.subnet_sizes: dict[str, int] = {}
        # (instance type, zone id) -> every launch there
        self.refusals: dict[tuple[str, str], LaunchErrorKind] = {}
        # (market, type or all) -> EC2's code
        self.refused_codes: dict[tuple[CapacityType, str | None], str] = {}
        # the next calls answer this and launch nothing
        self.whole_refusals: list[LaunchError] = []
        # instance type -> state reason with which they end, never running
        self.early_ends: dict[str, str | None] = {}
        self.throttle_count = 0  # the next launches are throttled
        self.read_throttle_count = 0  # and the next readings of instances
        self.templates: dict[str, StoredTemplate] = {}
        # members of resource groups, and the groups at which instances were launched
        self.groups: dict[str, set[str]] = {}
        self.launched_at: dict[str, str] = {}
        self.protected: set[str] = set()
        self.unhealthy: list[InstanceHealth] = []
        self.launch_calls: list[LaunchRequest] = []
        self.terminate_calls: list[tuple[str, ...]] = []
        self.describe_count = 0

    # --- FleetLauncher

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        if self.throttle_count:
            self.throttle_count -= 1
            raise ThrottledError("RequestLimitExceeded", "CreateFleet")
        known = self._tokens.get(client_token)
        if known is not None and self._clock.now() - known[2] <= self._token_lifetime:
            if known[0] != request:
                raise IdempotencyMismatchError("IdempotentParameterMismatch", "CreateFleet")
            return known[1]
        self.launch_calls.append(request)
        outcome = self._launch(request)
        self._tokens[client_token] = (request, outcome, self._clock.now())
        return outcome

    def _launch(self, request: LaunchRequest) -> LaunchOutcome:
        now = self._clock.now()
        if self.whole_refusals:
            return LaunchOutcome(errors=(self.whole_refusals.pop(0),), launched_at=now)
        missing = [
            c.template.name
            for c in request.configs
            if c.template.name not in self.templates
        ]
        if missing:
            code = "InvalidLaunchTemplateName.NotFoundException"
            return LaunchOutcome(
                errors=(LaunchError(LaunchErrorKind.TEMPLATE_MISSING, code),),
                launched_at=now,
            )
        instances: list[LaunchedInstance] = []
        errors: list[LaunchError] = []
        for override in [o for config in request.configs for o in config.overrides]:
            wanted = request.count - len(instances)
            if wanted > 0:
                count, error = self._room(request, override, wanted)
                instances += [self._start(request, override) for _ in range(count)]
                errors += [] if error is None else [error]
        if (
            request.all_or_none
            and supports_minimum(request)
            and len(instances) < request.count
        ):
            for instance in instances:
                del self._launched[instance.id]
            instances = []
        return LaunchOutcome(tuple(instances), tuple(errors), now)

    def _room(
        self, request: LaunchRequest, override: LaunchOverride, wanted: int
    ) -> tuple[int, LaunchError | None]:
        addresses = self.free_addresses(override.subnet_id)
        if addresses is not None and addresses < wanted:
            granted, refused = (
                self._room_in_pool(request, override, addresses)
                if addresses > 0
                else (0, None)
            )
            kind, code = LaunchErrorKind.SUBNET_FULL, "InsufficientFreeAddressesInSubnet"
            full = LaunchError(
                kind, code, override.instance_type, override.zone_id, override.subnet_id
            )
            return granted, refused or full
        return self._room_in_pool(request, override, wanted)

    def free_addresses(self, subnet_id: str) -> int | None:
        """Return how many instances still find an address; None for a subnet that is large enough for everybody."""
        size = self.subnet_sizes.get(subnet_id)
        if size is None:
            return None
        return size - sum(instance.subnet_id == subnet_id for instance in self.live())

    def _room_in_pool(
        self, request: LaunchRequest, override: LaunchOverride, wanted: int
    ) -> tuple[int, LaunchError | None]:
        place = (override.instance_type, override.zone_id)
        if place in self.refusals:
            return 0, LaunchError(self.refusals[place], self.refusals[place].value, *place)
        market = (
            CapacityType.RESERVED if request.target is not None else request.capacity_type
        )
        code = self.refused_codes.get(
            (market, override.instance_type)
        ) or self.refused_codes.get((market, None))
        if code is not None:
            return 0, LaunchError(launch_error_kind(code), code, *place)
        if request.target is not None:
            free = self.free_units(request.target.reservation_id)
            kind = LaunchErrorKind.RESERVATION_EXHAUSTED
            code = "ReservationCapacityExceeded"
        else:
            free = self._free_in_pool((*place, request.capacity_type), wanted)
            kind = LaunchErrorKind.INSUFFICIENT_CAPACITY
            code = "InsufficientInstanceCapacity"
        if free >= wanted:
            return wanted, None
        return max(0, free), LaunchError(kind, code, *place)

    def _start(self, request: LaunchRequest, override: LaunchOverride) -> LaunchedInstance:
        # Ids are not in the order of launches on EC2 either.
        instance_id = f"i-{(self._started_count * 7919 + 104_729) % 1_000_003:017x}"
        self._started_count += 1
        now = self._clock.now()
        target = request.target
        lifecycle = LIFECYCLES.get(target.kind.value, "") if target else ""
        instance = Instance(
            id=instance_id,
            state="pending",
            instance_type=override.instance_type,
            zone=override.zone,
            zone_id=override.zone_id,
            launched_at=now,
            owner=request.tags.get(OWNER_TAG),
            batch_id=request.tags.get(BATCH_TAG),
            claim_id=request.tags.get(NODE_CLAIM_TAG),
            lifecycle="spot" if request.capacity_type is CapacityType.SPOT else lifecycle,
            capacity_reservation_id=None if target is None else target.reservation_id,
            subnet_id=override.subnet_id,
            launch_template_id=self._template_of(request, override).id,
        )
        self._launched[instance_id] = _Launched(instance, now + self.lag)
        if request.reclaim_group_arn is not None:
            self.launched_at[instance_id] = request.reclaim_group_arn
        return LaunchedInstance(
            instance_id,
            override.instance_type,
            override.zone,
            override.zone_id,
            override.subnet_id,
        )

    def _template_of(
        self, request: LaunchRequest, override: LaunchOverride
    ) -> StoredTemplate:
        (name,) = {
            config.template.name
            for config in request.configs
            if override in config.overrides
        }
        return self.templates[name]

    def free_units(self, reservation_id: str) -> int:
        reservation = self.reservations.get(reservation_id)
        if reservation is None or reservation.state != "active":
            return 0
        taken = sum(1 for i in self.live() if i.capacity_reservation_id == reservation_id)
        return reservation.total_count - taken

    def _free_in_pool(self, key: tuple[str, str, CapacityType], wanted: int) -> int:
        size = self.pool_sizes.get(key)
        if size is None:
            return wanted
        return size - self.bought(key)

    def bought(self, pool: tuple[str, str, CapacityType]) -> int:
        """Return how many instances of a type run in a zone on a market, outside reservations."""
        spot = pool[2] is CapacityType.SPOT
        return sum(
            1
            for i in self.live()
            if (i.instance_type, i.zone_id) == pool[:2]
            and (i.lifecycle == "spot") == spot
            and i.capacity_reservation_id is None
        )

    # --- what tests do to EC2

    def live(self) -> list[Instance]:
        """Return instances that have not begun to end, as they are (views may lag)."""
        return [
            each.instance
            for _, each in sorted(self._launched.items())
            if not each.instance.is_gone
        ]

    def all(self) -> list[Instance]:
        return [each.instance for _, each in sorted(self._launched.items())]

    def change(self, instance_id: str, **changes: object) -> None:
        launched = self._launched[instance_id]
        launched.instance = replace(launched.instance, **changes)  # type: ignore[arg-type] # field names of tests

    def put(self, reservation: CapacityReservation) -> None:
        """Let a reservation be as it is from now on."""
        self.reservations[reservation.id] = reservation

    def join(self, reservation_id: str, group_arn: str) -> None:
        """Let a reservation be a member of a group; instances move in when they are moved."""
        self.groups.setdefault(group_arn, set()).add(reservation_id)

    def move_into_groups(self) -> list[str]:
        """Move running instances into free units of the groups that they were launched at; return which moved."""
        moved = []
        for instance in self.live():
            if instance.capacity_reservation_id is not None or instance.state != "running":
                continue
            members = self.groups.get(self.launched_at.get(instance.id, ""), set())
            for reservation_id in sorted(members):
                shown = self.reservations[reservation_id]
                is_alike = (shown.instance_type, shown.zone_id) == (
                    instance.instance_type,
                    instance.zone_id,
                )
                if is_alike and self.free_units(reservation_id) > 0:
                    self.change(instance.id, capacity_reservation_id=reservation_id)
                    moved.append(instance.id)
                    break
        return moved

    def start_all(self) -> None:
        for instance in self.live():
            if instance.state != "pending":
                continue
            if instance.instance_type in self.early_ends:
                self.change(
                    instance.id,
                    state="terminated",
                    state_reason=self.early_ends[instance.instance_type],
                )
            else:
                self.change(instance.id, state="running")

    def add(self, instance: Instance) -> None:
        self._launched[instance.id] = _Launched(instance, self._clock.now())

    def forget(self, instance_id: str) -> None:
        del self._launched[instance_id]

    # --- LaunchTemplateStore

    def ensure(self, template: LaunchTemplate) -> None:
        made = StoredTemplate(
            template.name, self._clock.now(), template.tags, f"lt-{template.name}"
        )
        self.templates.setdefault(template.name, made)

    def forget_templates(self, names: Collection[str]) -> None:
        for name in names:
            self.templates.pop(name, None)

    def list_templates(self) -> tuple[StoredTemplate, ...]:
        return tuple(self.templates[name] for name in sorted(self.templates))

    # --- InstanceReader

    def get_many(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        if self.read_throttle_count:
            self.read_throttle_count -= 1
            raise ThrottledError("RequestLimitExceeded", "DescribeInstances")
        self.describe_count += 1
        now = self._clock.now()
        found = {i: self._launched[i] for i in sorted(instance_ids) if i in self._launched}
        return {
            i: each.instance
            for i, each in found.items()
            if each.shown_at <= now and each.instance.owner
        }

    def list_batch(self, batch_id: str) -> tuple[Instance, ...]:
        return tuple(
            instance
            for instance in self._shown()
            if instance.owner and instance.batch_id == batch_id
        )

    def list_owned(self) -> tuple[Instance, ...]:
        return tuple(
            i for i in self._shown() if i.state != "terminated" and i.owner is not None
        )

    def _shown(self) -> list[Instance]:
        self.describe_count += 1
        now = self._clock.now()
        return [
            each.instance
            for _, each in sorted(self._launched.items())
            if each.shown_at <= now
        ]

    # --- InstanceTerminator, InstanceTagger

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        self.terminate_calls.append(tuple(sorted(instance_ids)))
        known = {i for i in instance_ids if i in self._launched}
        refused = dict.fromkeys(known & self.protected, "OperationNotPermitted")
        for instance_id in sorted(known - self.protected):
            if not self._launched[instance_id].instance.is_gone:
                self.change(instance_id, state="shutting-down")
        return TerminationReceipt(
            frozenset(known - self.protected), frozenset(instance_ids) - known, refused
        )

    def tag_claims(self, claim_ids: Mapping[str, str], *, patient: bool) -> None:
        del patient  # nothing limits the rate here
        for instance_id, claim_id in sorted(claim_ids.items()):
            self.change(instance_id, claim_id=claim_id)

    # --- ReservationReader, InstanceHealthReader

    def list_visible(self) -> tuple[CapacityReservation, ...]:
        return tuple(
            replace(self.reservations[key], available_count=max(0, self.free_units(key)))
            for key in sorted(self.reservations)
        )

    def list_group(self, group_arn: str) -> frozenset[str]:
        named = {
            r.id for r in self.reservations.values() if group_arn in r.resource_group_arns
        }
        return frozenset(named | self.groups.get(group_arn, set()))

    def list_unhealthy(self) -> tuple[InstanceHealth, ...]:
        return tuple(self.unhealthy)


class FakeTemplates:
    """Implements ``LaunchTemplateStore`` over a FakeEc2, with the memory of a warm process."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2
        self._known: set[str] = set()
        # what EC2 says to every template that is not known yet
        self.refusal: AwsError | None = None

    def ensure(self, template: LaunchTemplate) -> None:
        if self.refusal is not None and template.name not in self._known:
            raise self.refusal
        if template.name not in self._known:
            self._ec2.ensure(template)
            self._known.add(template.name)

    def forget(self, names: Collection[str]) -> None:
        self._known.difference_update(names)

    def list_owned(self) -> tuple[StoredTemplate, ...]:
        return self._ec2.list_templates()

    def delete(self, names: Collection[str]) -> None:
        self._ec2.forget_templates(names)
        self.forget(names)


class FakeDryRuns:
    """Implements ``DryRuns``; ``refusals`` by operation are what EC2 says to each, no other is refused."""

    def __init__(self) -> None:
        self.refusals: dict[str, AwsError] = {}
        self.asked: list[str] = []
        self.requests: list[LaunchRequest] = []
        self.templates: list[LaunchTemplate] = []

    def make_template(self, template: LaunchTemplate) -> None:
        self.templates.append(template)
        self._ask("CreateLaunchTemplate")

    def ask_for_fleet(self, request: LaunchRequest) -> None:
        self.requests.append(request)
        self._ask("CreateFleet")

    def run_instance(self, request: LaunchRequest) -> None:
        self.requests.append(request)
        self._ask("RunInstances")

    def _ask(self, operation: str) -> None:
        self.asked.append(operation)
        if operation in self.refusals:
            raise self.refusals[operation]
