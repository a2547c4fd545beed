"""What a change of policy means for what runs."""

from typing import Any

from lab.fakes.principals import MemoryPrincipals
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from lab.worlds.policies import BY
from reservoir.manifests.answers.render import to_yaml
from reservoir.runtime.composition.parts.planning import snapshot_gatherer_from
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals
from reservoir.usecases.policy.write_policy import WritePolicy
from reservoir.usecases.what_if.policy_impact import FindPolicyImpact, PolicyImpact


def ready() -> PlanningWorld:
    """Two replicas run: one in a reservation, one on demand."""
    units = reservation("cr-1", 1, tags={"team": "research"})
    world = PlanningWorld().ready(units)
    world.submit("train", replicas=2)
    world.plan()
    return world


def impact(world: PlanningWorld, *manifests: dict[str, Any]) -> PolicyImpact:
    principals = ResolvePrincipals(MemoryPrincipals(), world.clock)
    writer = WritePolicy(world.policy, world.queue, world.bus, BY)
    apply_policy = ApplyPolicy(world.policy, writer, principals)
    outcome = apply_policy.apply([("", to_yaml(manifests))], dry_run=True)
    return FindPolicyImpact(snapshot_gatherer_from(world.outside()), world.clock).of(
        outcome.effective
    )


def test_what_changes_no_node_has_no_impact() -> None:
    changed = node_pool_manifest()
    changed["spec"]["weight"] = 10
    assert impact(ready(), changed) == PolicyImpact()


def test_a_market_that_is_no_longer_allowed_makes_its_nodes_drift() -> None:
    found = impact(ready(), node_pool_manifest(capacity_types=("reserved",)))
    (node,) = found.drifting
    assert not node.is_reserved
    assert node.price_micro_usd_per_hour == 55_040_000
    assert node.reason.startswith("NodePool gpu no longer admits it")


def test_reservations_that_are_no_longer_selected_make_theirs_drift() -> None:
    other = node_class_manifest(
        capacityReservationSelectorTerms=[{"tags": {"team": "other"}}]
    )
    (node,) = impact(ready(), other).drifting
    assert (node.is_reserved, node.reason) == (
        True,
        "reservation cr-1 is no longer selected",
    )


def test_a_misspelt_type_is_a_pool_that_never_launches() -> None:
    changed = node_pool_manifest(name="new")
    types = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["p5.48xlagre"],
    }
    changed["spec"]["template"]["spec"]["requirements"].append(types)
    found = impact(ready(), changed)
    assert found.drifting == ()
    assert [(item.node_pool_name, item.reason) for item in found.never_launching] == [
        (
            "new",
            "no instance type has node.kubernetes.io/instance-type In [p5.48xlagre]; did you mean p5.48xlarge?",
        )
    ]
