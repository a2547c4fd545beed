"""The provision function."""

from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.lending import lend_units_from
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.composition.parts.planning import (
    check,
    planner_policy,
    snapshot_gatherer_from,
    solve_within,
)
from reservoir.runtime.outside import Outside
from reservoir.usecases.provisioning.commit_plan import PlanCommitter
from reservoir.usecases.provisioning.keep_static_pools import KeepStaticPools
from reservoir.usecases.provisioning.keep_warm_nodes import KeepWarmNodes
from reservoir.usecases.provisioning.launch_ahead import LaunchAhead
from reservoir.usecases.provisioning.provision import Provision
from reservoir.usecases.provisioning.recent_commits import RecentCommits
from reservoir.usecases.provisioning.solver import Solve
from reservoir.usecases.provisioning.workload_status import WorkloadStatus


@once
def provision() -> Provision:
    """Return the planner."""
    outside = process_outside()
    solve = solve_within(
        outside.settings.solve_budget,
        outside.monotonic_s,
        is_awaited=outside.queue.planner_is_awaited,
    )
    return provision_from(outside, solve)


def provision_from(outside: Outside, solve: Solve) -> Provision:
    """Wire the planner, and what launches static pools and warm nodes with the same means."""
    gatherer = snapshot_gatherer_from(outside)
    committer = PlanCommitter(outside.node_claims, outside.ids, outside.clock)
    policy = planner_policy(outside)
    draining = draining_from(outside)
    ahead = LaunchAhead(
        committer=committer,
        decisions=outside.decisions,
        queue=outside.queue,
        publisher=outside.publisher,
        ids=outside.ids,
        policy=policy,
        solve=solve,
        check=check,
        make_way=draining.make_way,
    )
    static_pools = KeepStaticPools(gatherer, outside.node_claims, outside.clock, ahead)
    warm_nodes = KeepWarmNodes(
        gatherer,
        outside.node_claims,
        outside.clock,
        ahead,
        outside.settings.account_id,
    )
    return Provision(
        gatherer=gatherer,
        committer=committer,
        status=WorkloadStatus(outside.workloads, outside.publisher),
        node_claims=outside.node_claims,
        decisions=outside.decisions,
        queue=outside.queue,
        publisher=outside.publisher,
        ids=outside.ids,
        clock=outside.clock,
        policy=policy,
        solve=solve,
        check=check,
        shed_surplus=draining.shed_surplus,
        make_way=draining.make_way,
        pause=outside.pause,
        monotonic_s=outside.monotonic_s,
        executor=outside.executor,
        recent=RecentCommits(outside.monotonic_s),
        static_pools=static_pools,
        lending=lend_units_from(outside, policy, solve),
        warm_nodes=warm_nodes,
        at_once_max=outside.settings.planned_at_once_max,
    )
