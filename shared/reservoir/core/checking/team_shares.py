"""What teams own, lend and borrow, read off the state that a plan leads to.

Written from the rules (docs/teams.md) and not from what shares units out: a plan is judged by its end alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import CapacityReservationSelectorTerm
from reservoir.core.model.team import Quota, Team
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources

_UNLIMITED: Final = 10**9
_NO_TEAM: Final = Team("")
_NOTHING: Final = Resources.of({})
# Of two hours that a gang waits, what its team owns is held for it in the first.
_HELD_FOR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Account:
    """One group of reservations in the end: what each team owns and uses, and what is left free."""

    quotas: Mapping[str, Quota]
    used: Mapping[str, int]
    free: int

    def owned(self, team_name: str) -> int:
        return self.quotas[team_name].nominal_units if team_name in self.quotas else 0

    def borrowed(self, team_name: str) -> int:
        return max(0, self.used.get(team_name, 0) - self.owned(team_name))


class TeamShares:
    """The accounts of a plan's end; without quotas everything is everybody's."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._teams = {team.name: team for team in facts.snapshot.teams}
        self._team_by_namespace: dict[str, Team] = {}
        for team in sorted(facts.snapshot.teams, key=lambda each: each.name, reverse=True):
            self._team_by_namespace.update(dict.fromkeys(team.namespaces, team))
        self._account_of: dict[str, _Account] = {}
        self.accounts = list(self._accounts())
        self._held = self._teams_with_gangs() if self.accounts else frozenset()

    def team_of(self, workload_key: str) -> str:
        """Return the team of a workload; the empty name for none."""
        return self._team_by_namespace.get(workload_key.split("/", 1)[0], _NO_TEAM).name

    def buys_its_own(self, workload: Workload) -> bool:
        """Whether a price cap or a budget may hold the workload to bought nodes of its own."""
        if workload.max_price_micro_usd_per_hour is not None:
            return True
        if self._facts.snapshot.ceiling_micro_usd_per_hour is not None:
            return True
        team = self._teams.get(self.team_of(workload.key))
        return team is not None and team.budget_micro_usd_per_hour is not None

    def may_use(self, workload_key: str, node_pool_name: str) -> bool:
        """Whether the workload's team may use the pool."""
        team = self._teams.get(self.team_of(workload_key))
        return team is None or not team.node_pools or node_pool_name in team.node_pools

    def open_units(self, workload_key: str, reservation_id: str | None) -> int:
        """Return how many more units of a reservation the workload's team may have, as far as shares go."""
        account = self._account_of.get(reservation_id or "")
        if account is None:
            return _UNLIMITED
        name = self.team_of(workload_key)
        own = max(0, account.owned(name) - account.used.get(name, 0))
        limit = (
            account.quotas[name].borrowing_limit_units if name in account.quotas else None
        )
        loans = max(0, account.free - own - self._kept(account, name))
        if limit is not None:
            loans = min(loans, max(0, limit - account.borrowed(name)))
        return min(account.free, own + loans)

    def is_between_teams(
        self, keys: Iterable[str], workload_key: str, reservation_id: str | None
    ) -> bool:
        """Whether units of the reservation are shared out, and some of the workloads are of another's team."""
        name = self.team_of(workload_key)
        return reservation_id in self._account_of and any(
            self.team_of(key) != name for key in keys
        )

    def owes(
        self, borrower_key: str, workload_key: str, reservation_id: str | None
    ) -> bool:
        """Whether the borrower has units on loan in which the other workload's team is short of its own."""
        account = self._account_of.get(reservation_id or "")
        if account is None:
            return False
        borrower, owner = self.team_of(borrower_key), self.team_of(workload_key)
        return account.borrowed(borrower) > 0 and account.used.get(
            owner, 0
        ) < account.owned(owner)

    def violations(self) -> Iterator[Violation]:
        """Report loans that the plan makes against a limit of the borrower or of an owner."""
        takers: dict[_Account, dict[str, set[str]]] = {}
        for host in self._facts.hosts:
            account = self._account_of.get(_reservation_of(host) or "")
            if (
                host.node is None
                and account is not None
                and (name := self._user(host)) is not None
            ):
                keys = {key for key in host.placed if self.team_of(key) == name}
                takers.setdefault(account, {}).setdefault(name, set()).update(keys)
        for account in self.accounts:
            for name, keys in sorted(takers.get(account, {}).items()):
                yield from self._loans(account, name, tuple(sorted(keys)))
        yield from self._budgets()
        yield from self._pools()

    def _pools(self) -> Iterator[Violation]:
        """Report replicas that the plan places in pools that their teams may not use."""
        if not self._teams:
            return
        for host in self._facts.hosts:
            name = host.pool_name
            for key in sorted(host.placed):
                if not self.may_use(key, name):
                    message = (
                        f"{key} is placed in NodePool {name}, which its team may not use"
                    )
                    yield Violation(ViolationCode.TEAM_POOL, host.subject, message, (key,))

    # Branches: what everybody pays is summed once for both rules, the ceiling's and the teams'.
    def _budgets(self) -> Iterator[Violation]:
        """Report teams that pay more in the end than they may, by their part of nodes, if the plan buys for them."""
        paid: Counter[str] = Counter()
        buyers: dict[str, set[str]] = {}
        ceiling = self._facts.snapshot.ceiling_micro_usd_per_hour
        if ceiling is None and all(
            team.budget_micro_usd_per_hour is None for team in self._teams.values()
        ):
            return
        everything = new = 0
        for host in self._facts.hosts:
            if _reservation_of(host) is not None:
                continue
            price = _price(host) if host.node is None else host.node.price_atto_usd_per_hour
            everything += host.nodes * price
            new += host.nodes * price if host.node is None else 0
            carried = Counter(host.running)
            carried.update(host.placed)
            taken = {key: count * self._share(key, host) for key, count in carried.items()}
            # a plan to be judged may place no replicas
            everything_taken = sum(taken.values()) or 1
            for key, part in taken.items():
                paid[self.team_of(key)] += host.nodes * price * part // everything_taken
                if host.node is None:
                    buyers.setdefault(self.team_of(key), set()).add(key)
        if ceiling is not None and new and everything > ceiling * ATTO_USD_PER_MICRO_USD:
            message = f"would pay more than {ceiling} micro-USD an hour"
            everybody = tuple(sorted(set().union(*buyers.values())))
            yield Violation(ViolationCode.TEAM_BUDGET, "the deployment", message, everybody)
        for name, keys in sorted(buyers.items()):
            most = (
                self._teams[name].budget_micro_usd_per_hour if name in self._teams else None
            )
            if most is not None and paid[name] > most * ATTO_USD_PER_MICRO_USD:
                message = f"would pay more than {most} micro-USD an hour"
                yield Violation(
                    ViolationCode.TEAM_BUDGET, f"team {name}", message, tuple(sorted(keys))
                )

    def _share(self, key: str, host: Host) -> int:
        """Return the largest part of a resource of the host that one replica takes, in millionths."""
        workload = self._facts.workloads.get(key)
        requests = _NOTHING if workload is None else workload.requests
        room = host.allocatable
        return max(
            [
                1,
                *(
                    asked * 10**6 // room[name]
                    for name, asked in requests.items()
                    if room[name] > 0
                ),
            ]
        )

    def _loans(
        self, account: _Account, name: str, keys: tuple[str, ...]
    ) -> Iterator[Violation]:
        borrowed = account.borrowed(name)
        limit = (
            account.quotas[name].borrowing_limit_units if name in account.quotas else None
        )
        if limit is not None and borrowed > limit:
            message = f"borrows {borrowed} units where {limit} are allowed"
            yield Violation(ViolationCode.TEAM_QUOTA, f"team {name}", message, keys)
        kept = self._unlent(account, name)
        if borrowed and account.free < kept:
            message = f"borrows {borrowed} units and leaves {account.free} of {kept} that are not lent to it"
            yield Violation(ViolationCode.TEAM_QUOTA, f"team {name}", message, keys)

    def _kept(self, account: _Account, borrower: str) -> int:
        held = sum(
            max(0, account.owned(name) - account.used.get(name, 0))
            for name in self._held
            if name != borrower
        )
        return max(held, self._unlent(account, borrower))

    def _unlent(self, account: _Account, borrower: str) -> int:
        """Return how many units stay with their owners: in other cohorts all that those do not lend one another."""
        cohort = self._teams.get(borrower, _NO_TEAM).cohort
        kept = 0
        lent_elsewhere: Counter[str] = Counter()
        for name, quota in account.quotas.items():
            if name == borrower:
                continue
            unused = max(0, quota.nominal_units - account.used.get(name, 0))
            lent = (
                quota.nominal_units
                if quota.lending_limit_units is None
                else quota.lending_limit_units
            )
            unlent = max(0, quota.nominal_units - lent - account.used.get(name, 0))
            kept += unlent
            if self._teams[name].cohort != cohort:
                lent_elsewhere[self._teams[name].cohort] += unused - unlent
        borrowed: Counter[str] = Counter()
        for name in account.used:
            borrowed[self._teams.get(name, _NO_TEAM).cohort] += account.borrowed(name)
        return kept + sum(
            max(0, units - borrowed[other]) for other, units in lent_elsewhere.items()
        )

    def _teams_with_gangs(self) -> frozenset[str]:
        waiting = {refusal.workload_key for refusal in self._facts.plan.unplaced}
        return frozenset(
            self.team_of(demand.workload.key)
            for demand in self._facts.snapshot.demands
            if demand.workload.gang is not None
            and demand.workload.key in waiting
            and int((self._facts.now - demand.pending_since) / _HELD_FOR) % 2 == 0
        )

    # Branches: comprehensions of a line each; the loop hands every reservation to one account.
    def _accounts(self) -> Iterator[_Account]:
        asked: dict[frozenset[str], dict[str, Quota]] = {}
        for team in self._facts.snapshot.teams:
            for quota in team.quotas:
                asked.setdefault(frozenset(map(repr, quota.reservation_terms)), {})[
                    team.name
                ] = quota
        if not asked:
            return
        used = self._used()
        left = {item.id: item for item in self._facts.snapshot.reservations}
        for _, quotas in sorted(
            asked.items(), key=lambda item: _order(next(iter(item[1].values())))
        ):
            terms = next(iter(quotas.values())).reservation_terms
            ids = [key for key, item in sorted(left.items()) if _selected(terms, item)]
            users: Counter[str] = Counter()
            for key in ids:
                users.update(used.get(key, {}))
            free = sum(max(0, left[key].free_units) - self._launched(key) for key in ids)
            account = _Account(quotas, users, free)
            self._account_of.update(dict.fromkeys(ids, account))
            for key in ids:
                del left[key]
            yield account

    def _launched(self, reservation_id: str) -> int:
        launches = self._facts.plan.launches
        return sum(
            launch.count
            for launch in launches
            if launch.offering.reservation_id == reservation_id
        )

    def _used(self) -> Mapping[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for host in self._facts.hosts:
            reservation_id = _reservation_of(host)
            if reservation_id is None or (host.node is not None and host.node.deleting):
                continue
            name = self._user(host)
            if name is not None:
                found.setdefault(reservation_id, Counter())[name] += host.nodes
        for reservation_id, name in self._leaving():
            found.setdefault(reservation_id, Counter())[name] += 1
        return found

    def _leaving(self) -> Iterator[tuple[str, str]]:
        """Yield units whose nodes withdrawn work has not left yet, and its teams."""
        for node in self._facts.snapshot.nodes:
            if node.leaving and node.reservation_id is not None:
                name = self._main_user(
                    {placed.workload_key: placed.count for placed in node.leaving},
                    node.allocatable,
                )
                if name is not None:
                    yield node.reservation_id, name

    def _user(self, host: Host) -> str | None:
        """Return the team that uses most of a host, by the resource of which it takes the largest part.

        A node that runs something stays its team's: a workload that joins it uses room of a unit that is taken already.
        """
        running = () if host.node is None else host.node.placements
        carried = {placed.workload_key: placed.count for placed in running} or host.placed
        return self._main_user(carried, host.allocatable)

    def _main_user(self, carried: Mapping[str, int], capacity: Resources) -> str | None:
        parts: Counter[str] = Counter()
        for key, count in carried.items():
            workload = self._facts.workloads.get(key)
            amounts = () if workload is None else workload.requests.items()
            parts[self.team_of(key)] += max(
                (
                    amount * count * 10**6 // capacity[name]
                    for name, amount in amounts
                    if capacity[name] > 0
                ),
                default=0,
            )
        return min(parts, key=lambda name: (-parts[name], name), default=None)


def _reservation_of(host: Host) -> str | None:
    if host.node is not None:
        return host.node.reservation_id
    return None if host.planned is None else host.planned.offering.reservation_id


def _price(host: Host) -> int:
    assert host.planned is not None
    return host.planned.price_atto_usd_per_hour


def _order(quota: Quota) -> str:
    """Sort groups by their terms as sentences name them: a reservation is in the first that selects it alone."""
    return " or ".join(sorted(_sentence(term) for term in quota.reservation_terms))


def _sentence(term: CapacityReservationSelectorTerm) -> str:
    parts: Iterable[tuple[str, str | None]] = [
        ("id", term.id),
        ("owner", term.owner_id),
        *((f"tag {key}", term.tags[key]) for key in sorted(term.tags)),
        ("match", term.instance_match_criteria),
        ("group", term.reservation_group_arn),
    ]
    return ", ".join(f"{name} {value}" for name, value in parts if value is not None)


def _selected(
    terms: Sequence[CapacityReservationSelectorTerm], item: CapacityReservation
) -> bool:
    return any(_selects(term, item) for term in terms)


def _selects(term: CapacityReservationSelectorTerm, item: CapacityReservation) -> bool:
    asked = [
        (term.id, item.id),
        (term.owner_id, item.owner_id),
        (term.instance_match_criteria, item.instance_match_criteria),
    ]
    if any(wanted is not None and wanted != found for wanted, found in asked):
        return False
    if (
        term.reservation_group_arn is not None
        and term.reservation_group_arn not in item.resource_group_arns
    ):
        return False
    return all(
        key in item.tags and value in ("*", item.tags[key])
        for key, value in term.tags.items()
    )
