"""From EC2's reservations to the Reservations table, the leases that an observation contains, and class statuses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.idle import is_to_be_published
from reservoir.core.capacity.lineage import due_notice, notice_key, successors
from reservoir.core.capacity.reservation_selection import selected_ids
from reservoir.core.history.past_event import reservation_name
from reservoir.core.history.reservation_use import LOOKED_BACK, placed_in
from reservoir.core.launching.start_readiness import is_meant, is_near
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    ENDED_STATES,
    GONE,
    CapacityReservation,
    ObservedReservation,
    ReservationKind,
)
from reservoir.core.model.node_class import NodeClass
from reservoir.core.static_pools.census import census, growing_pools
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.core.warm_nodes.free_units import offered, warm_nodes
from reservoir.core.warm_nodes.wanted import WarmWishes, warming_pools
from reservoir.ports.discovery import NetworkReader, ReservationReader
from reservoir.ports.errors import AwsError
from reservoir.ports.history import HistoryStore
from reservoir.ports.messaging import DrainTimers, EventPublisher, WorkQueue
from reservoir.ports.policy import PolicyStore
from reservoir.ports.state import (
    NodeClaimStore,
    ReservationRecord,
    ReservationStore,
    UnreadableRowsError,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims.announce import (
    reservation_ending,
    reservation_exhausted,
    reservation_idle,
)
from reservoir.usecases.discovery.observe_reservation import (
    ReservationChange,
    ReservationObserver,
    news_of,
    with_known_network,
)
from reservoir.usecases.discovery.publish_readiness import PublishReadiness
from reservoir.usecases.policy.policy_objects import Policy, policy_of
from reservoir.usecases.policy.resolve_node_classes import (
    NodeClassResolver,
    SelectedReservations,
)

# Resource Groups' code for a group that is not there.
_NO_SUCH_GROUP: Final = "NotFoundException"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a run found; ``failures`` name what could not be looked up, where the last good state was kept.

    ``unreadable`` names policy that cannot be read: it stays as it is, and nothing that depends on it is ended.
    """

    seen_count: int
    written_count: int
    absorbed_count: int
    gone_count: int
    changed_classes: tuple[str, ...]
    failures: tuple[str, ...]
    woke_planner: bool
    unreadable: tuple[str, ...] = ()
    # reservations that begin soon and whose first launch lacks something
    unready_count: int = 0


# Those of which EC2 says where they are in the network.
_STATES_WITH_NETWORK: Final = frozenset({"pending", ACTIVE})


@dataclass(frozen=True, slots=True)
class _ShownReservations:
    """The reservations of EC2's answer that a class selects; the other fields as in ``SelectedReservations``."""

    reservations: tuple[ObservedReservation, ...]
    error: str | None
    reclaim_group_arn: str | None


@dataclass(frozen=True, slots=True)
class DiscoverReservations:
    """One run: every minute, and on every event that hints at a change."""

    reader: ReservationReader
    network: NetworkReader
    resolver: NodeClassResolver
    policy: PolicyStore
    reservations: ReservationStore
    observer: ReservationObserver
    node_claims: NodeClaimStore
    timers: DrainTimers
    queue: WorkQueue
    publisher: EventPublisher
    clock: Clock
    readiness: PublishReadiness
    history: HistoryStore
    account_id: str

    def run(self) -> Discovery:
        """Observe once. When reservations cannot be read, flags the last good facts as stale and raises AwsError.

        Raises UnreadableRowsError when an object of the policy became unreadable meanwhile.
        """
        # before the call: what EC2 answers is at least as old as this
        observed_at = self.clock.now()
        known = {
            record.reservation.id: record for record in self.reservations.list_current()
        }
        try:
            visible = self.reader.list_visible()
        except AwsError:
            self.reservations.mark_stale(known)
            raise
        objects = self.policy.list_all()
        policy = policy_of(objects)
        classes = policy.node_classes
        groups, unreadable = self._groups(classes)
        observed = {
            item.id: replace(item, resource_group_arns=_groups_of(item, groups))
            for item in visible
        }
        selections = {
            item.name: _selection(item, observed, groups, unreadable, observed_at)
            for item in classes
        }
        meant = [
            each.id
            for each in observed.values()
            if is_near(each, observed_at) and _is_meant_by_any(classes, each)
        ]
        shown, unplaced = self._with_network(
            known, self._shown(known, observed, selections, meant)
        )
        before_and_shown = [(known.get(key), each) for key, each in shown.items()]
        # Before it is saved: a run that dies in between publishes it again.
        self.publisher.publish(news_of(before_and_shown, observed_at))
        changes = self._save(known, shown, observed_at)
        saved = [change.after.reservation for change in changes]
        current = {reservation.id: reservation for reservation in saved}
        selected = {
            name: _counted(selection, current) for name, selection in selections.items()
        }
        refreshed = self.resolver.refresh(objects, selected, observed_at)
        if refreshed.changed or any(change.opened(observed_at) for change in changes):
            wake_reason: str | None = "reservations changed"
        else:
            wake_reason = self._lacking(policy, current, observed_at)
        if wake_reason is not None:
            self.queue.wake_planner(reason=wake_reason)
        self._publish_use(changes, observed_at)
        self._publish_endings(changes, observed_at)
        unready_count, unlooked = self._publish_readiness(changes, observed_at)
        unasked = self._ask_for_validation(refreshed.to_validate)
        # Last: timers refine what each minute's sweep does, and a run that dies before them leaves it to the sweep.
        for change in changes:
            self._set_timers(change.before, change.after.reservation, observed_at)
        return Discovery(
            seen_count=len(visible),
            written_count=sum(change.is_written for change in changes),
            absorbed_count=sum(change.absorbed_count for change in changes),
            gone_count=len(known.keys() - observed.keys()),
            changed_classes=refreshed.changed,
            failures=(*refreshed.failures, *unplaced, *unasked, *unlooked),
            woke_planner=wake_reason is not None,
            unreadable=tuple(f"{kind}/{name}" for kind, name in sorted(policy.unreadable)),
            unready_count=unready_count,
        )

    def _lacking(
        self, policy: Policy, current: Mapping[str, CapacityReservation], now: datetime
    ) -> str | None:
        """Return that a pool has fewer static or warm nodes than it wants, or None.

        Claims are listed only for such pools.
        """
        growing = growing_pools(policy.node_pools)
        warming = warming_pools(policy.node_pools)
        if not (growing or warming):
            return None
        live = {claim.id: claim for claim in self.node_claims.list_live()}
        reserved = ReservedCapacity.of(current.values(), policy.node_classes, None, now)
        shown, _ = offered(warm_nodes(live.values()), current.values())
        to_grow_into = ReservedCapacity.of(shown, policy.node_classes, None, now)
        if any(census(pool, live, to_grow_into).missing for pool in growing):
            return "static pools lack nodes"
        wishes = WarmWishes(policy.node_pools, live, reserved, self.account_id)
        if any(wishes.of(pool).missing_count for pool in warming):
            return "free units are to be kept warm"
        return None

    def _ask_for_validation(self, names: Sequence[str]) -> tuple[str, ...]:
        """Ask the role that launches to try classes; return the failures. The next run asks again."""
        try:
            self.queue.send_validations(names)
        except AwsError as error:
            return tuple(
                f"{name}: no dry run was asked for: {error.code}" for name in names
            )
        return ()

    def _publish_readiness(
        self, changes: Sequence[ReservationChange], now: datetime
    ) -> tuple[int, tuple[str, ...]]:
        """Return for how many reservations something new is missing, and the failures to look."""
        try:
            return self.readiness.publish([change.after for change in changes], now), ()
        except (AwsError, UnreadableRowsError) as error:
            return 0, (f"readiness: {error}",)

    def _publish_use(self, changes: Sequence[ReservationChange], now: datetime) -> None:
        """Publish which reservations have just filled up, and which have been idle for long."""
        records = [
            change.after for change in changes if change.after.balance.free_units > 0
        ]
        idle = {
            record.reservation.id: reservation_idle(record, record.idle_since)
            for record in records
            if record.idle_since is not None
            and is_to_be_published(record.idle_since, record.idle_said_at, now)
        }
        exhausted = [
            reservation_exhausted(change.after.reservation)
            for change in changes
            if change.was_exhausted
        ]
        self.publisher.publish([*exhausted, *idle.values()])
        if idle:
            # Afterwards: a run that dies in between publishes it again.
            self.reservations.mark_idle_said(idle, said_at=now)

    def _publish_endings(self, changes: Sequence[ReservationChange], now: datetime) -> None:
        """Publish which reservations end in 14, 7 or 1 days, with what runs in them and which reservation follows."""
        records = [change.after for change in changes]
        notices = {
            record.reservation.id: due_notice(record.reservation, record.ending_said, now)
            for record in records
        }
        due = [
            (record.reservation, days)
            for record in records
            if (days := notices[record.reservation.id]) is not None
        ]
        if not due:
            return
        claims = list(self.node_claims.list_live())
        following = successors(record.reservation for record in records)
        self.publisher.publish(
            [
                reservation_ending(
                    reservation,
                    days,
                    following.get(reservation.id),
                    claims,
                    self._placed_of_late(reservation.id, now),
                )
                for reservation, days in due
            ]
        )
        # Afterwards: a run that dies in between publishes it again.
        self.reservations.mark_ending_said(
            {reservation.id: notice_key(reservation, days) for reservation, days in due}
        )

    def _placed_of_late(
        self, reservation_id: str, now: datetime
    ) -> Mapping[str, int] | None:
        """Return what was placed in a reservation in the last weeks; None: the history cannot be read."""
        name = reservation_name(reservation_id)
        try:
            events = self.history.of_object(name, now - LOOKED_BACK, now)
            return placed_in(reservation_id, events)
        except AwsError:
            return None

    def _groups(
        self, classes: Iterable[NodeClass]
    ) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
        """Read the resource groups that classes name; return their members, and the error of each unreadable group."""
        arns: set[str] = set()
        for node_class in classes:
            terms = node_class.capacity_reservation_selector_terms
            arns.update(
                term.reservation_group_arn
                for term in terms
                if term.reservation_group_arn is not None
            )
            if node_class.reclaim_group_arn is not None:
                arns.add(node_class.reclaim_group_arn)
        groups: dict[str, frozenset[str]] = {}
        unreadable: dict[str, str] = {}
        for arn in sorted(arns):
            try:
                groups[arn] = self.reader.list_group(arn)
            except AwsError as error:
                unreadable[arn] = error.code
        return groups, unreadable

    def _shown(
        self,
        known: Mapping[str, ReservationRecord],
        observed: Mapping[str, ObservedReservation],
        selections: Mapping[str, _ShownReservations],
        meant: Iterable[str],
    ) -> dict[str, ObservedReservation]:
        """Return the reservations that are selected, meant or known, by id; EC2 no longer lists those that are gone."""
        selected = set(meant)
        for selection in selections.values():
            selected.update(reservation.id for reservation in selection.reservations)
        shown = {
            key: observed[key] if key in observed else _gone(known[key])
            for key in sorted(known.keys() | selected)
        }
        return {
            key: each for key, each in shown.items() if key in known or self._is_new(each)
        }

    def _with_network(
        self,
        known: Mapping[str, ReservationRecord],
        shown: Mapping[str, ObservedReservation],
    ) -> tuple[Mapping[str, ObservedReservation], tuple[str, ...]]:
        """Add where reservations are in the network; return also why that could not be read.

        EC2 tells more of a reservation once it is active, and may tell something else when it changes size.
        """
        placed: dict[str, ObservedReservation] = {}
        asked: dict[str, str] = {}
        for key, each in shown.items():
            before = known[key].reservation if key in known else None
            placed[key] = with_known_network(before, each)
            is_as_before = before is not None and (before.state, before.size) == (
                each.state,
                each.size,
            )
            if each.state in _STATES_WITH_NETWORK and not (
                is_as_before and placed[key].network_nodes
            ):
                asked[key] = each.instance_type
        try:
            nodes = self.network.of_reservations(asked) if asked else {}
        except AwsError as error:
            return placed, (f"network nodes of reservations: {error.code}",)
        for key, found in nodes.items():
            placed[key] = replace(placed[key], network_nodes=found)
        return placed, ()

    def _save(
        self,
        known: Mapping[str, ReservationRecord],
        shown: Mapping[str, ObservedReservation],
        observed_at: datetime,
    ) -> list[ReservationChange]:
        """Save the observed reservations."""
        changes = []
        for key, reservation in shown.items():
            before = known.get(key)
            try:
                change = self.observer.observe(before, reservation, observed_at)
            except UnreadableRowsError:
                continue  # its row stays as it is
            if change is not None:
                changes.append(change)
        return changes

    def _is_new(self, reservation: ObservedReservation) -> bool:
        """Whether a reservation without a stored row has to be stored. A row that cannot be read stays as it is."""
        if reservation.state in ENDED_STATES:
            return False
        try:
            self.reservations.get(reservation.id)
        except UnreadableRowsError:
            return False
        return True

    def _set_timers(
        self,
        before: ReservationRecord | None,
        reservation: CapacityReservation,
        observed_at: datetime,
    ) -> None:
        """Set exact timers for reservations that are new or whose times moved.

        A future reservation is looked at when it begins. A block drains in time, and later when it was extended.
        """
        known = None if before is None else before.reservation
        start_at = reservation.start_at if reservation.is_upcoming(observed_at) else None
        if (
            start_at is not None
            and start_at > observed_at
            and (known is None or known.start_at != start_at)
        ):
            self.timers.set_start_timer(reservation.id, start_at)
        drain_at = reservation.drain_at()
        if (
            reservation.kind is not ReservationKind.CAPACITY_BLOCK
            or drain_at is None
            or drain_at <= observed_at
        ):
            return
        if reservation.state in ENDED_STATES or (
            known is not None and known.drain_at() == drain_at
        ):
            return
        self.timers.set_timer(reservation.id, drain_at)


def _is_meant_by_any(
    classes: Sequence[NodeClass], reservation: ObservedReservation
) -> bool:
    return any(is_meant(node_class, reservation) for node_class in classes)


def _gone(record: ReservationRecord) -> ObservedReservation:
    return replace(record.reservation, state=GONE, available_count=0, stale=False)


def _groups_of(
    reservation: ObservedReservation, groups: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    return tuple(
        sorted(arn for arn, members in groups.items() if reservation.id in members)
    )


def _selection(
    node_class: NodeClass,
    observed: Mapping[str, ObservedReservation],
    groups: Mapping[str, frozenset[str]],
    unreadable: Mapping[str, str],
    now: datetime,
) -> _ShownReservations:
    """Select the class's reservations.

    While one of its groups cannot be read, the previous selection stays selected too.
    """
    ids = set(selected_ids(node_class, observed.values(), groups, now))
    terms = node_class.capacity_reservation_selector_terms
    arns = {
        term.reservation_group_arn
        for term in terms
        if term.reservation_group_arn is not None
    }
    errors = sorted(unreadable[arn] for arn in arns if arn in unreadable)
    if errors:
        ids |= set(node_class.status.reservation_ids) & observed.keys()
    return _ShownReservations(
        tuple(observed[key] for key in sorted(ids)),
        errors[0] if errors else None,
        _found_group(node_class, unreadable),
    )


def _found_group(node_class: NodeClass, unreadable: Mapping[str, str]) -> str | None:
    """Return the group for on-demand nodes if it exists; a group that cannot be read is the previous one.

    A group that does not exist must not stop launches: they run on demand, without a group.
    """
    arn = node_class.reclaim_group_arn
    error = unreadable.get(arn or "")
    if error is None or error == _NO_SUCH_GROUP:
        return None if error is not None else arn
    return arn if node_class.status.reclaim_group_arn == arn else None


def _counted(
    selection: _ShownReservations, current: Mapping[str, CapacityReservation]
) -> SelectedReservations:
    """Return the selection with the ledger's free units; with EC2's where another discovery saved first."""
    return SelectedReservations(
        tuple(
            current.get(item.id)
            or CapacityReservation.of(item, free_units=item.available_count)
            for item in selection.reservations
        ),
        selection.error,
        selection.reclaim_group_arn,
    )
