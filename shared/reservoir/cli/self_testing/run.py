"""A self-test: one instance through the whole pipeline and away again, step by step.

Its resources have names and tags of their own, so that the next run finds everything that a killed run has left.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from reservoir.cli.self_testing.manifests import NAME, policy, workload
from reservoir.cli.stack import sending
from reservoir.cli.stack.connection import Connection
from reservoir.cli.waiting import until
from reservoir.core.model.conditions import ConditionStatus, ConditionType
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.manifests.answers.self_test import SelfTestStep
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import OWNER_TAG, SELF_TEST_TAG
from reservoir.ports.ec2 import ReservationOrder
from reservoir.ports.errors import AwsError
from reservoir.ports.policy import PolicyKind, PolicyObject
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import ConflictError, UnreadableRowsError
from reservoir.usecases.policy.apply_policy import ApplyPolicy

T = TypeVar("T")

_POOL: Final = (PolicyKind.NODE_POOL, NAME)
_CLASS: Final = (PolicyKind.NODE_CLASS, NAME)
# EC2 ends the reservation by itself then, whatever happens to this command.
_RESERVED_FOR: Final = timedelta(hours=1)
_BILLED_AT_LEAST: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_REFUSALS: Final = (
    AwsError,
    ConflictError,
    ManifestError,
    UnreadableRowError,
    UnreadableRowsError,
)


class StepFailedError(Exception):
    """A step failed; the text says how far it came."""


@dataclass(frozen=True, slots=True)
class SelfTestPlan:
    """What is to be tested. ``node_class``: the stored class whose copy launches the instance."""

    node_class: PolicyObject
    platform: str
    instance_type: str
    price_micro_usd_per_hour: int
    namespace: str
    timeout: timedelta
    reserves: bool


@dataclass(slots=True)
class _Charge:
    """Something that costs money from an instant on, until it is over."""

    price_micro_usd_per_hour: int
    began_at: datetime
    over_at: datetime | None = None

    def micro_usd(self, now: datetime) -> int:
        """Return the cost so far, rounded up."""
        lasted = max(_BILLED_AT_LEAST, (self.over_at or now) - self.began_at)
        return -(-self.price_micro_usd_per_hour * lasted // _HOUR)


@dataclass(slots=True)
class SelfTest:
    """One run. ``say`` hears of each step when it is over."""

    stack: Connection
    apply: ApplyPolicy
    plan: SelfTestPlan
    say: Callable[[SelfTestStep], None]
    steps: list[SelfTestStep] = field(default_factory=list)
    _charges: dict[str, _Charge] = field(default_factory=dict)  # by claim or reservation
    _zone: str = ""  # in which the instance on demand was had

    def run(self) -> bool:
        """Do all steps until one fails, and remove everything again in any case; return whether all passed."""
        try:
            self._do("remove what an earlier run left", self._remove)
            self._through(CapacityType.ON_DEMAND)
            if self.plan.reserves:
                reservation_id = self._do("reserve one unit", self._reserve)
                self._through(CapacityType.RESERVED, reservation_id)
        except StepFailedError:
            pass  # the last of the steps, and says why
        finally:
            with suppress(StepFailedError):
                self._do("remove everything again", self._remove)
        return all(step.passed for step in self.steps)

    def cost_micro_usd(self) -> int:
        """Return what EC2 will bill for it."""
        now = self._now()
        return sum(charge.micro_usd(now) for charge in self._charges.values())

    def _do(self, name: str, action: Callable[[], tuple[T, str]]) -> T:
        """Do a step and note it; raises StepFailedError where it failed, whatever the reason."""
        began_at = self._now()
        try:
            result, said = action()
        except (StepFailedError, *_REFUSALS) as error:
            self._note(name, began_at, passed=False, said=_words(error))
            raise StepFailedError(name) from error
        self._note(name, began_at, passed=True, said=said)
        return result

    def _note(self, name: str, began_at: datetime, *, passed: bool, said: str) -> None:
        took_s = int((self._now() - began_at).total_seconds())
        step = SelfTestStep(name=name, passed=passed, took_s=took_s, said=said)
        self.steps.append(step)
        self.say(step)

    # -- the way of one instance

    def _through(self, market: CapacityType, reservation_id: str | None = None) -> None:
        manifest = WorkloadManifest.model_validate(workload(self.plan.namespace, market))
        self._do(
            f"{market}: the policy is ready",
            partial(self._be_ready, market, reservation_id),
        )
        self._do(f"{market}: the demand is accepted", partial(self._submit, manifest))
        key = manifest.to_core().key
        self._do(f"{market}: its replica has a place", partial(self._be_placed, key))
        claim = self._do(
            f"{market}: its instance runs",
            partial(self._be_running, key, market, reservation_id),
        )
        self._zone = claim.offering.zone
        self._do(f"{market}: its instance is gone again", self._withdraw_all)

    def _be_ready(
        self, market: CapacityType, reservation_id: str | None
    ) -> tuple[None, str]:
        selected = () if reservation_id is None else (reservation_id,)
        file = policy(
            self.plan.node_class.manifest, self.plan.instance_type, market, selected
        )
        self.apply.apply([file])

        def ready() -> bool | None:
            found = self._stored(_CLASS)
            if found is None or found.status.node_class.reservation_ids != selected:
                return None
            return True if _is_ready(found) else None

        if self._until(ready) is None:
            raise StepFailedError(_why_not_ready(self._stored(_CLASS)))
        return None, f"EC2NodeClass/{NAME} and NodePool/{NAME}"

    def _submit(self, manifest: WorkloadManifest) -> tuple[None, str]:
        key = manifest.to_core().key
        outgoing = sending.submit(manifest, self.stack.outside.workloads.get(key))
        if outgoing.body is not None:
            self.stack.outside.demand.send(outgoing.body)

        def stored() -> bool | None:
            record = self.stack.outside.workloads.get(key)
            return sending.is_stored(manifest, outgoing.generation, record)

        if not self._until(stored):
            raise StepFailedError(
                f"workload/{key} was sent, and not stored: see `reservoir dlq list demand`"
            )
        return None, f"workload/{key}, generation {outgoing.generation}"

    def _be_placed(self, key: str) -> tuple[None, str]:
        def placed() -> bool | None:
            record = self.stack.outside.workloads.get(key)
            return True if record is not None and record.placed_count else None

        if self._until(placed) is None:
            raise StepFailedError(self._why_it_waits(key) or "no plan has spoken of it")
        return None, f"workload/{key}"

    def _why_it_waits(self, key: str) -> str:
        record = self.stack.outside.workloads.get(key)
        reasons = () if record is None else record.unplaced
        return "; ".join(f"{each.code.value}: {each.message}" for each in reasons)

    def _be_running(
        self, key: str, market: CapacityType, reservation_id: str | None
    ) -> tuple[NodeClaim, str]:
        seen = "no node of the pool was seen"

        def running() -> NodeClaim | None:
            nonlocal seen
            for claim in self._claims():
                self._charge(claim)
                seen = f"node {claim.id} is {claim.state}"
                if claim.state is ClaimState.RUNNING:
                    return claim
            return None

        claim = self._until(running)
        if claim is None:
            raise StepFailedError(
                self._why_it_waits(key) or f"{seen}: see `reservoir events`"
            )
        offering = claim.offering
        if (offering.capacity_type, offering.reservation_id) != (market, reservation_id):
            raise StepFailedError(f"it runs as {offering}, and was to run as {market}")
        where = reservation_id or market.value
        return claim, f"{claim.instance_id}, {offering.instance_type} in {where}"

    def _withdraw_all(self) -> tuple[None, str]:
        """Withdraw the workloads, release their replicas, and wait until no node is left."""
        for market in (CapacityType.ON_DEMAND, CapacityType.RESERVED):
            key = f"{self.plan.namespace}/{NAME}-{market.value}"
            record = self.stack.outside.workloads.get(key)
            body = None if record is None else sending.withdraw(record).body
            if body is not None:
                self.stack.outside.demand.send(body)
        released: set[str] = set()
        seen = ""

        def gone() -> bool | None:
            nonlocal seen
            left = self._claims()
            for claim in left:
                self._charge(claim)
                seen = f"node {claim.id} is {claim.state}"
                # Nothing runs there that could say so itself.
                if claim.state is ClaimState.DRAINING and claim.id not in released:
                    released.add(claim.id)
                    for placed in claim.drain.awaiting if claim.drain else ():
                        body = sending.release(placed.workload_key, claim.id, None)
                        self.stack.outside.demand.send(body)
            return None if left else True

        if self._until(gone) is None:
            raise StepFailedError(f"{seen}: see `reservoir events`")
        for charge in self._charges.values():
            charge.over_at = charge.over_at or self._now()
        return None, "no node of the self-test is left"

    # -- the reservation

    def _reserve(self) -> tuple[str, str]:
        now = self._now()
        deployment = self.stack.outside.settings.deployment
        order = ReservationOrder(
            token=f"{NAME}-{deployment}-{now:%Y%m%d%H%M%S}",
            instance_type=self.plan.instance_type,
            zone=self._zone,
            platform=self.plan.platform,
            end_at=now + _RESERVED_FOR,
            tags={SELF_TEST_TAG: deployment, OWNER_TAG: deployment},
        )
        reservation_id = self.stack.outside.reservation_maker.make(order)
        self._charges[reservation_id] = _Charge(self.plan.price_micro_usd_per_hour, now)
        return (
            reservation_id,
            f"{reservation_id} in {self._zone}, until {order.end_at:%H:%M}",
        )

    # -- and away again

    def _remove(self) -> tuple[None, str]:
        """Remove all that a run makes; what could not go does not keep the rest from going."""
        try:
            self._withdraw_all()
        finally:
            if self.plan.reserves:
                self._cancel_reservations()
            self.apply.replace([], [_POOL, _CLASS])
        return None, "workloads, nodes, reservation, pool and class"

    def _cancel_reservations(self) -> None:
        maker = self.stack.outside.reservation_maker
        deployment = self.stack.outside.settings.deployment
        for reservation_id in maker.living(SELF_TEST_TAG, deployment):
            maker.cancel(reservation_id)

    # -- what exists

    def _claims(self) -> list[NodeClaim]:
        live = self.stack.outside.node_claims.list_live()
        return [claim for claim in live if claim.node_pool_name == NAME]

    def _charge(self, claim: NodeClaim) -> None:
        """Note what a node costs from its launch on; in a reservation it costs nothing more."""
        if claim.launched_at is not None and claim.id not in self._charges:
            is_reserved = claim.offering.capacity_type is CapacityType.RESERVED
            price = claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
            self._charges[claim.id] = _Charge(
                0 if is_reserved else price, claim.launched_at
            )

    def _stored(self, name: tuple[PolicyKind, str]) -> PolicyObject | None:
        objects = self.stack.outside.policy.list_all()
        return next((each for each in objects if (each.kind, each.name) == name), None)

    def _until(self, answer: Callable[[], T | None]) -> T | None:
        return until(self.stack, self.plan.timeout, answer)

    def _now(self) -> datetime:
        return self.stack.outside.clock.now()


def _is_ready(node_class: PolicyObject) -> bool:
    return any(
        each.type is ConditionType.READY and each.status is ConditionStatus.TRUE
        for each in node_class.status.conditions
    )


def _why_not_ready(node_class: PolicyObject | None) -> str:
    if node_class is None:
        return f"EC2NodeClass/{NAME} is gone: somebody else deleted it"
    said = [
        f"{each.type} is {each.status}: {each.message}"
        for each in node_class.status.conditions
        if each.status is not ConditionStatus.TRUE
    ]
    return "; ".join(said) or "discovery has not looked at it: see `reservoir doctor`"


def _words(error: Exception) -> str:
    problems: Any = getattr(error, "problems", None)
    return "; ".join(map(str, problems)) if problems else str(error)
