"""Whatever comes in, a use case ends in a change or in a refusal, and what it stored can be read again."""

import json
from typing import Any

from hypothesis import given

from lab.fakes.principals import MemoryPrincipals
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock
from lab.worlds.policies import BY, Bus
from reservoir.core.model.workload import Workload
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.manifests.answers.render import to_yaml
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.state import ConflictError
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals
from reservoir.usecases.policy.show_policy import ShowPolicy
from reservoir.usecases.policy.write_policy import WritePolicy
from tests.manifests.kinds import valid
from tests.manifests.test_fuzz import mutated
from tests.usecases.demand.test_intake import World

RULES = DemandRules(frozenset({"pool"}))


@given(mutated())
def test_policy(manifest: dict[str, Any]) -> None:
    store, bus, clock = MemoryPolicyStore(), Bus(), ManualClock()
    applier = ApplyPolicy(
        store,
        WritePolicy(store, bus, bus, BY),
        ResolvePrincipals(MemoryPrincipals(), clock),
    )
    applier.apply([("there", to_yaml([valid.node_pool(), valid.node_class()]))])
    before = store.list_all()
    try:
        outcome = applier.apply([("given", json.dumps(manifest))])
    except (ManifestError, ConflictError):
        assert store.list_all() == before
        return
    assert all(str(problem).isprintable() for problem in outcome.problems)
    state = MemoryState(clock)
    printed = to_yaml(
        ShowPolicy(
            store, state.reservations, state.node_claims, state.workloads, clock
        ).show()
    )
    assert applier.apply([("printed", printed)]).effective == ()


@given(mutated())
def test_demand(manifest: dict[str, Any]) -> None:
    world = World()
    refusals: list[str] = []
    for action in ("submit", "withdraw", "release"):
        body = json.dumps({"action": action, "workload": manifest, "nodeClaim": "nc-1"})
        try:
            message = parse_demand(body)
            assert not isinstance(message, DescribeMessage)
            world.intake.apply(message, RULES)
        except ManifestError as error:
            refusals += map(str, error.problems)
    assert all(map(str.isprintable, refusals))
    for record in world.state.workload_rows.values():
        if record.workload is not None:
            assert loads(Workload, dumps(record.workload)) == record.workload
