"""Stored policy as values of the core."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.team import TeamManifest, is_unique_id
from reservoir.manifests.parsing.fields import STORED
from reservoir.ports.policy import Pause, PolicyKind, PolicyObject

# manifests of a kind that a process keeps in their parsed form
_REMEMBERED_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Policy:
    """All pools, classes and teams, by name; ``unreadable`` names objects that exist and cannot be understood."""

    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    teams: tuple[Team, ...] = ()
    unreadable: frozenset[tuple[PolicyKind, str]] = frozenset()


def policy_of(objects: Iterable[PolicyObject]) -> Policy:
    """Convert stored objects; classes have what discovery found for them, and teams the ids of their principals.

    A manifest is no longer valid when the release that wrote it understood a field that this one does not.
    """
    pools, classes, teams, unreadable = [], [], [], set()
    for stored in sorted(objects, key=lambda stored: (stored.kind, stored.name)):
        if not stored.is_readable:
            unreadable.add((stored.kind, stored.name))
            continue
        try:
            if stored.kind is PolicyKind.NODE_POOL:
                pool, paused = _node_pool(_wire_form(stored)), paused_text(stored.pause)
                pools.append(pool if paused is None else replace(pool, paused=paused))
            elif stored.kind is PolicyKind.TEAM:
                teams.append(_team(stored))
            else:
                classes.append(
                    replace(
                        _node_class(_wire_form(stored)), status=stored.status.node_class
                    )
                )
        except (ValueError, TypeError):
            # pydantic's error is a ValueError; the manifest may not be a mapping at all
            unreadable.add((stored.kind, stored.name))
    return Policy(tuple(pools), tuple(classes), tuple(teams), frozenset(unreadable))


# Every pass, launch and drain reads policy, which changes by the day: a warm process parses a manifest once. The whole
# manifest is the key, so that an old result can never be taken for a new one.
def _wire_form(stored: PolicyObject) -> str:
    return json.dumps(dict(stored.manifest))


@lru_cache(_REMEMBERED_MAX)
def _node_pool(manifest: str) -> NodePool:
    return NodePoolManifest.model_validate(json.loads(manifest), context=STORED).to_core()


@lru_cache(_REMEMBERED_MAX)
def _node_class(manifest: str) -> NodeClass:
    return NodeClassManifest.model_validate(json.loads(manifest), context=STORED).to_core()


@lru_cache(_REMEMBERED_MAX)
def _named_team(manifest: str) -> Team:
    return TeamManifest.model_validate(json.loads(manifest), context=STORED).to_core()


def _team(stored: PolicyObject) -> Team:
    team = _named_team(_wire_form(stored))
    named = {each for each in team.principals if is_unique_id(each)}
    return replace(
        team, principal_ids=frozenset(named.union(stored.status.principals.values()))
    )


def paused_text(pause: Pause) -> str | None:
    """Return who paused a pool, when and why; None while it may launch."""
    if not pause.is_paused:
        return None
    last = pause.operations[-1]
    return f"by {last.by} since {last.at:%Y-%m-%d %H:%M} UTC: {last.reason}"
