"""A namespace of a team: who may do what, verb by verb; what is refused changes nothing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reservoir.core.model.team import Team, TeamLimits, by_namespace
from reservoir.manifests.event_parts import WorkloadRef
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.state import UnreadableRowsError
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.intake import Answer
from tests.usecases.demand.test_intake import World, submit, withdraw

RESEARCH = Team(
    "research-team",
    namespaces=("research",),
    principals=("arn:aws:iam::123456789012:role/front-end",),
    limits=TeamLimits(
        priority=10, replicas=8, checkpoint_period_s=3600, generation_jump=100
    ),
    principal_ids=frozenset({"AROAOWN"}),
)
OWN, STRANGER = "AROAOWN:front-end-1", "AROAOTHER:front-end-1"
RELEASE: dict[str, Any] = {
    "action": "release",
    "workload": {"metadata": {"name": "train", "namespace": "research"}},
    "nodeClaim": "nc-1",
}
VERBS: dict[str, dict[str, Any]] = {
    "submit": submit(),
    "update": {**submit(2, replicas=5), "action": "update"},
    "withdraw": withdraw(),
    "release": RELEASE,
    "describe": {"action": "describe", "workload": RELEASE["workload"], "requestId": "q-1"},
}


class Teams(World):
    """Intake with one team."""

    def __init__(self, *teams: Team, unreadable: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.rules = DemandRules(
            frozenset(), by_namespace(teams or (RESEARCH,)), unreadable
        )

    def by(self, sender_id: str | None, body: dict[str, Any]) -> Answer:
        message = parse_demand(json.dumps(body))
        if isinstance(message, DescribeMessage):
            self.rules.authorise(message, sender_id)
            return Answer(message.action, WorkloadRef(namespace="research", name="train"))
        return self.intake.apply(message, self.rules, sender_id)

    def refused(self, sender_id: str | None, body: dict[str, Any]) -> list[tuple[str, str]]:
        rows, releases = dict(self.state.workload_rows), list(self.releases)
        with pytest.raises(ManifestError) as error:
            self.by(sender_id, body)
        assert (self.state.workload_rows, self.releases) == (rows, releases), (
            "changes nothing"
        )
        return [(problem.path, problem.rule) for problem in error.value.problems]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "sender_id", [STRANGER, None, "", "AROAOWNX:x", "123456789012", "front-end-1:AROAOWN"]
)
def test_nobody_else_acts_for_a_teams_namespace(verb: str, sender_id: str | None) -> None:
    world = Teams()
    world.by(OWN, submit(generation=1))
    assert world.refused(sender_id, VERBS[verb]) == [
        ("workload.metadata.namespace", "not-permitted")
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_a_principal_acts_for_its_teams_namespace(verb: str) -> None:
    world = Teams()
    assert world.by(OWN, VERBS[verb]).ignored is None


@pytest.mark.parametrize("verb", VERBS)
def test_a_namespace_of_no_team_is_open_as_before(verb: str) -> None:
    world = Teams(Team("other", namespaces=("elsewhere",), principals=("x",)))
    assert world.by(STRANGER, VERBS[verb]).ignored is None


def test_a_refusal_names_the_team_and_whoever_asked() -> None:
    world = Teams()
    with pytest.raises(ManifestError) as error:
        world.by(STRANGER, submit())
    assert str(error.value.problems[0].message) == (
        "'AROAOTHER:front-end-1' is not a principal of Team research-team, to which research belongs"
    )


def test_a_team_asks_for_no_more_than_its_limits() -> None:
    world = Teams()
    assert world.refused(OWN, submit(replicas=9, priority=11)) == [
        ("workload.spec.priority", "team-limit"),
        ("workload.spec.replicas", "team-limit"),
    ]
    assert world.refused(OWN, submit(checkpointPeriod="61m")) == [
        ("workload.spec.checkpointPeriod", "team-limit")
    ]
    assert (
        world.by(OWN, submit(replicas=8, priority=10, checkpointPeriod="1h")).ignored
        is None
    )


def away_from(*namespaces: str, weight: int | None = None) -> dict[str, Any]:
    """A message whose replicas avoid those of these namespaces, or would rather."""
    term = {
        "labelSelector": {},
        "namespaces": list(namespaces),
        "topologyKey": "topology.kubernetes.io/zone",
    }
    if weight is None:
        rules: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        rules = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": term}
            ]
        }
    return submit(affinity={"podAntiAffinity": rules})


def test_required_affinity_stays_at_home() -> None:
    vision, open_to_us = (
        Team("vision", ("vision",)),
        Team("robots", ("robots",), affinity_from=("research-team",)),
    )
    world = Teams(RESEARCH, vision, open_to_us)
    assert world.refused(OWN, away_from("vision", "robots")) == [
        ("workload.spec.affinity.podAntiAffinity", "not-permitted")
    ]
    assert world.by(OWN, away_from("robots", "research", "nobodys")).ignored is None
    preferred = away_from("vision", weight=1)
    preferred["workload"]["metadata"]["generation"] = 2
    assert world.by(OWN, preferred).ignored is None, "a preference binds nobody else"

    stranger = Teams(vision)
    assert stranger.refused(None, away_from("vision")), "who is of no team reaches none"


def test_a_team_may_forbid_its_work_to_say_that_it_must_not_be_disturbed() -> None:
    message = submit()
    message["workload"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    strict = replace(RESEARCH, limits=TeamLimits(do_not_disrupt=False))
    (problem,) = Teams(strict).refused(OWN, message)
    assert problem[1] == "team-limit"
    assert Teams(RESEARCH).by(OWN, message).ignored is None


def test_a_generation_that_jumps_too_far_is_refused_and_poisons_nothing() -> None:
    world = Teams()
    poison = 2**53 - 1
    jump = [("workload.metadata.generation", "generation-jump")]
    assert world.refused(OWN, withdraw(poison)) == jump, "of nothing that is stored"
    assert world.refused(OWN, submit(101)) == jump
    world.by(OWN, submit(100))
    assert world.refused(OWN, withdraw(poison)) == jump
    assert world.refused(OWN, submit(201)) == jump
    world.by(OWN, submit(200, replicas=3))
    assert world.record.generation == 200


def test_while_a_team_cannot_be_read_only_namespaces_of_others_are_open() -> None:
    world = Teams(unreadable=("Team/secret",))
    assert world.by(OWN, submit()).ignored is None
    elsewhere = submit()
    elsewhere["workload"]["metadata"]["namespace"] = "may-be-its-own"
    with pytest.raises(UnreadableRowsError):
        world.by(STRANGER, elsewhere)
