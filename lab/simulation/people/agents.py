"""The agents on nodes: they report that replicas run, fail, have finished, and have left a node that drains.

An agent knows what its claim's row says, some seconds late, and reports what has come about since it was started. A
node that is gone reports nothing more; what it has sent may still arrive.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState, NodeClaim

_AT_WORK = frozenset({ClaimState.RUNNING, ClaimState.DRAINING})


@dataclass
class _Agent:
    """What one node's agent has told."""

    ready: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    # workloads whose next end on the node is on its way
    ends: set[str] = field(default_factory=set)
    finished: Counter[str] = field(default_factory=Counter)
    is_about_to_look: bool = False


@dataclass
class Agents:
    """All of them. ``send`` puts a report into the queue, with the id of who sent it."""

    kernel: Kernel
    chance: Chance
    claims: Callable[[], Mapping[str, NodeClaim]]
    instance: Callable[[str | None], Instance | None]
    send: Callable[[str, str], None]
    are_there: bool = False
    resting: bool = False  # what runs goes on running from now on
    # by claim and workload, as it is
    finished: Counter[tuple[str, str]] = field(default_factory=Counter)
    _agents: dict[str, _Agent] = field(default_factory=dict)

    def row_written(self, claim: NodeClaim) -> None:
        """Hear that a claim changed."""
        if not self.are_there or claim.state not in _AT_WORK or claim.instance_id is None:
            return
        agent = self._agents.setdefault(claim.id, _Agent())
        if not agent.is_about_to_look:
            agent.is_about_to_look = True
            self.kernel.after(
                self.chance.between("agent", SECOND, MINUTE), lambda: self._look(claim.id)
            )

    def finished_of(self, key: str) -> int:
        """Return how many replicas of a workload have finished, on whichever node."""
        return sum(count for (_, of), count in self.finished.items() if of == key)

    def _look(self, claim_id: str) -> None:
        claim, agent = self.claims().get(claim_id), self._agents[claim_id]
        agent.is_about_to_look = False
        if claim is None or claim.state not in _AT_WORK or not self._is_up(claim):
            return
        for key in sorted(_hosted(claim)):
            if key not in agent.ready:
                agent.ready.add(key)
                self._report(claim, key, report="ready", replicas=_hosted(claim)[key])
            if key not in agent.ends:
                agent.ends.add(key)
                worked = self.chance.between("agent", 30 * SECOND, 12 * MINUTE)
                self.kernel.after(worked, lambda key=key: self._end(claim_id, key))  # type: ignore[misc] # binds the key
            if (
                claim.drain is not None
                and key not in agent.released
                and self.chance.between("agent", 0, 9) > 0
            ):
                agent.released.add(key)
                left_after = self.chance.between("agent", SECOND, 3 * MINUTE)
                # The default binds the key of this round; the checker cannot tell its type.
                self.kernel.after(left_after, lambda key=key: self._leave(claim_id, key))  # type: ignore[misc] # mypy infers no lambda with a default

    def _end(self, claim_id: str, key: str) -> None:
        """Let one replica's command end, with success or not."""
        claim, agent = self.claims().get(claim_id), self._agents[claim_id]
        agent.ends.discard(key)
        if self.resting or claim is None or not self._is_up(claim):
            return
        if key not in _hosted(claim) or key in agent.released:
            return
        if self.chance.between("agent", 0, 3) == 0:
            self._report(
                claim, key, report="failed", exitCode=1, restarts=0, nextStartInS=10
            )
            self.row_written(claim)  # it is started again
        else:
            agent.finished[key] += 1
            self.finished[claim_id, key] += 1
            self._report(claim, key, report="finished", replicas=agent.finished[key])

    def _leave(self, claim_id: str, key: str) -> None:
        claim = self.claims().get(claim_id)
        if claim is not None and self._is_up(claim):
            self._report(claim, key, report="released")

    def _is_up(self, claim: NodeClaim) -> bool:
        instance = self.instance(claim.instance_id)
        return instance is not None and not instance.is_gone

    def _report(self, claim: NodeClaim, key: str, **said: Any) -> None:
        namespace, _, name = key.partition("/")
        body = {"workload": {"namespace": namespace, "name": name}, **said}
        self.send(json.dumps(body), f"AROANODES:{claim.instance_id}")


def _hosted(claim: NodeClaim) -> Mapping[str, int]:
    """Return the replicas that belong on the node, and are not known to have left it, by workload."""
    placed = claim.placements if claim.drain is None else claim.drain.awaiting
    return {each.workload_key: each.count for each in placed}
