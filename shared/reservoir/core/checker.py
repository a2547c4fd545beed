"""The independent checker: does a plan keep the rules? Every plan is checked before it is committed (rule 6).

It shares the domain types and the requirement algebra with the solver and nothing else. Work grows with the number of
launches and refusals, not with the number of replicas.

The solver minimises, in this order: the replicas that are left over, higher priorities first; money; units whose
accelerators idle; the worth of the units in use. The checker does not compare a plan with the best one. It judges the
first where a replica that could have a place has none (``UnplacedWithoutCause``, ``PriorityInversion``), the second
where money is spent for nothing (``PaidWhileFree``, ``DearSpot``), and the other two not at all.
"""

from datetime import datetime

from reservoir.core.checking.constraints.spread import topology_violations
from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.dear_spot import dear_spot_violations
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.launches import node_violations
from reservoir.core.checking.residual.residual_check import residual_violations
from reservoir.core.checking.team_resources import TeamResources
from reservoir.core.checking.team_shares import TeamShares
from reservoir.core.checking.totals import total_violations
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot

__all__ = ["Violation", "ViolationCode", "check"]


def check(
    snapshot: Snapshot, plan: Plan, *, now: datetime, policy: SchedulingPolicy
) -> tuple[Violation, ...]:
    """Return every violation of a rule, sorted; the plan may be committed when none of them forbids that.

    What a plan leaves over (rule 3, priorities, true refusals) is judged only once everything else holds: a broken plan
    could have left anything over.
    """
    facts = Facts(snapshot, plan, now, policy)
    topology = Topology(facts)
    found = [*node_violations(facts, topology), *total_violations(facts, topology)]
    if any(violation.code is ViolationCode.UNKNOWN_NAME for violation in found):
        return tuple(sorted(set(found)))  # topology and the leftovers need names that exist
    found.extend(topology_violations(facts, topology))
    found.extend(TeamShares(facts).violations())
    found.extend(TeamResources(facts).violations())
    if not found:
        found.extend(dear_spot_violations(facts, topology))
        found.extend(residual_violations(facts, topology))
    return tuple(sorted(set(found)))
