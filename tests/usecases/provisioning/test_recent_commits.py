"""A pass knows what the one before it committed, although the index of claims does not list it yet."""

from shared.core.model.node_claim import NodeClaim
from shared.core.scheduling_terms.resources import Resources
from tests.fakes.values import reservation
from tests.usecases.worlds.planning_world import PlanningWorld, node_pool_manifest


def test_limits_of_a_pool_count_nodes_that_are_not_listed_yet() -> None:
    pool = node_pool_manifest(capacity_types=("on-demand",))
    pool["spec"]["limits"] = {"cpu": "20"}
    world = PlanningWorld().ready(reservation(total_count=1, available_count=0), pool=pool)

    def nothing() -> tuple[NodeClaim, ...]:
        return ()

    world.state.node_claims.list_live = nothing  # type: ignore[method-assign] # the index lags
    planner = world.provisioner()
    for number in range(3):
        world.submit(f"job-{number}", replicas=1, requests=Resources.of({"cpu": 12_000}))
        planner.run()
        world.clock.advance(seconds=5)

    assert [claim.offering.instance_type for claim in world.state.claim_rows.values()] == ["m5.4xlarge"]
