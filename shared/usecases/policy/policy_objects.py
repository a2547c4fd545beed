"""Stored policy as values of the core."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.core.model.node_class import NodeClass
from shared.core.model.node_pool import NodePool
from shared.core.model.team import Team
from shared.manifests.kinds.node_class import NodeClassManifest
from shared.manifests.kinds.node_pool import NodePoolManifest
from shared.manifests.kinds.team import TeamManifest, is_unique_id
from shared.ports.policy import Pause, PolicyKind, PolicyObject


@dataclass(frozen=True, slots=True)
class Policy:
    """All pools, classes and teams, by name; ``unreadable`` names those that are there and cannot be understood."""

    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    teams: tuple[Team, ...] = ()
    unreadable: frozenset[tuple[PolicyKind, str]] = frozenset()


def policy_of(objects: Iterable[PolicyObject]) -> Policy:
    """Convert stored objects; classes carry what discovery found for them, teams whom their principals were.

    A manifest is not valid any more when the release that wrote it understood a field that this one does not.
    """
    pools, classes, teams, unreadable = [], [], [], set()
    for stored in sorted(objects, key=lambda stored: (stored.kind, stored.name)):
        if not stored.is_readable:
            unreadable.add((stored.kind, stored.name))
            continue
        try:
            if stored.kind is PolicyKind.NODE_POOL:
                pool = NodePoolManifest.model_validate(dict(stored.manifest)).to_core()
                pools.append(replace(pool, paused=_paused(stored.pause)))
            elif stored.kind is PolicyKind.TEAM:
                teams.append(_team(stored))
            else:
                node_class = NodeClassManifest.model_validate(dict(stored.manifest)).to_core()
                classes.append(replace(node_class, status=stored.status.node_class))
        except (ValueError, TypeError):  # of which pydantic's is one; the manifest may be no mapping at all
            unreadable.add((stored.kind, stored.name))
    return Policy(tuple(pools), tuple(classes), tuple(teams), frozenset(unreadable))


def _team(stored: PolicyObject) -> Team:
    team = TeamManifest.model_validate(dict(stored.manifest)).to_core()
    named = {each for each in team.principals if is_unique_id(each)}
    return replace(team, principal_ids=frozenset(named.union(stored.status.principals.values())))


def _paused(pause: Pause) -> str | None:
    """Say who paused a pool, when and why; None while it may launch."""
    if not pause.is_paused:
        return None
    last = pause.operations[-1]
    return f"by {last.by} since {last.at:%Y-%m-%d %H:%M} UTC: {last.reason}"
