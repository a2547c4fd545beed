"""A team's principals are who had their names when it was applied."""

import json
from typing import Any

import pytest

from lab.fakes.manifests import team_manifest
from lab.fakes.principals import MemoryPrincipals
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.worlds.policies import applier
from reservoir.core.model.team import Team
from reservoir.manifests.events import Change
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.apply_policy import Outcome
from reservoir.usecases.policy.policy_objects import policy_of

ROLE = "arn:aws:iam::123456789012:role/front-end"


def team(
    name: str = "vision", *namespaces: str, principals: tuple[str, ...] = (ROLE,)
) -> dict[str, Any]:
    return team_manifest(
        name, namespaces=list(namespaces) or [name], principals=list(principals)
    )


class World:
    def __init__(self) -> None:
        self.store = MemoryPolicyStore()
        self.principals = MemoryPrincipals({ROLE: "AROA1"})

    def apply(self, *manifests: dict[str, Any], dry_run: bool = False) -> Outcome:
        files = [
            (f"{number}.json", json.dumps(each)) for number, each in enumerate(manifests)
        ]
        return applier(self.store, principals=self.principals).apply(files, dry_run=dry_run)

    @property
    def team(self) -> Team:
        (found,) = policy_of(self.store.list_all()).teams
        return found

    def condition(self) -> tuple[str, str]:
        stored = self.store.get(PolicyKind.TEAM, "vision")
        assert stored is not None
        found = stored.status.conditions[0]
        return found.status.value, found.message


def test_a_principal_is_whoever_has_the_name_when_the_team_is_applied() -> None:
    world = World()
    world.apply(team())
    world.principals.ids[ROLE] = "AROA2"  # deleted and made anew
    assert world.team.may_act("AROA1:any-session")
    assert not world.team.may_act("AROA2:any-session")

    again = world.apply(team())
    assert [change.change for change in again.changes] == [Change.UNCHANGED]
    assert world.team.may_act("AROA2:any-session")
    assert not world.team.may_act("AROA1:any-session")


def test_a_dry_run_resolves_and_stores_nothing() -> None:
    world = World()
    world.apply(team())
    world.principals.ids[ROLE] = "AROA2"
    world.apply(team(), dry_run=True)
    assert world.team.principal_ids == {"AROA1"}


def test_a_principal_that_iam_does_not_know_is_told_and_lets_nobody_in() -> None:
    world = World()
    world.principals.ids.clear()
    outcome = world.apply(team())
    assert [(problem.rule, problem.path) for problem in outcome.problems] == [
        ("principal-not-found", "spec.principals")
    ]
    assert world.condition() == (
        "False",
        f"IAM knows no {ROLE}: apply the team again once it does",
    )
    assert not world.team.may_act("AROA1:x")
    assert not world.team.may_act("")

    world.principals.ids[ROLE] = "AROA1"
    assert world.apply(team()).problems == ()
    assert world.condition()[0] == "True"
    assert world.team.may_act("AROA1:x")


def test_a_unique_id_is_taken_at_its_word_and_iam_is_not_asked() -> None:
    world = World()
    world.apply(team(principals=("AROAEXAMPLE0123456789",)))
    assert world.team.may_act("AROAEXAMPLE0123456789:worker")
    assert world.principals.asked == []


def test_without_principals_everybody_who_may_send_may_act() -> None:
    world = World()
    world.apply(team(principals=()))
    assert world.team.may_act("AIDASOMEBODY")


def test_two_teams_cannot_claim_one_namespace() -> None:
    world = World()
    world.apply(team("audio", "shared"))
    before = world.store.list_all()
    with pytest.raises(ManifestError) as refused:
        world.apply(team("vision", "own", "shared"))
    assert [problem.rule for problem in refused.value.problems] == ["namespace-taken"]
    assert "shared belongs to Team audio already" in str(refused.value.problems[0])
    assert world.store.list_all() == before


def test_what_iam_does_not_say_is_not_guessed() -> None:
    class Closed(MemoryPrincipals):
        def unique_id(self, arn: str) -> str | None:
            raise AccessDeniedError("AccessDenied", f"GetRole {arn}")

    world = World()
    world.principals = Closed()
    with pytest.raises(AccessDeniedError):
        world.apply(team())
    assert world.store.list_all() == ()
