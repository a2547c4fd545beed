"""What teams have: units of reservations, what was bought for them, who waits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reservoir.core.history.sample import BoughtSample, PendingForReason, TeamSample
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.model.workload import Workload
from reservoir.core.sharing.quota_groups import users_of


def measure_teams(
    teams: Sequence[Team],
    claims: Iterable[NodeClaim],
    workloads: Mapping[str, Workload],
    waiting: Iterable[PendingForReason],
    bought: Iterable[BoughtSample],
) -> Iterator[TeamSample]:
    """Yield what each team has, by name; ``workloads``, by key, are those on the claims.

    A unit counts whole, for the team that uses most of it, as quotas count it.
    """
    owners = {namespace: team.name for namespace, team in by_namespace(teams).items()}
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    used = Counter(
        users_of(
            Snapshot((), nodes=nodes, workloads=workloads, teams=tuple(teams))
        ).values()
    )
    paid: Counter[str] = Counter()
    for each in bought:
        paid[_owner(owners, each.workload_key)] += each.micro_usd_per_hour
    waits: Counter[str] = Counter()
    for pending in waiting:
        waits[_owner(owners, pending.workload_key)] += pending.replica_count
    for team in sorted(teams, key=lambda team: team.name):
        owned = sum(quota.nominal_units for quota in team.quotas)
        yield TeamSample(
            team.name, owned, used[team.name], paid[team.name], waits[team.name]
        )


def _owner(owners: Mapping[str, str], workload_key: str) -> str:
    return owners.get(workload_key.partition("/")[0], "")
