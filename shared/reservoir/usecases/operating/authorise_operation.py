"""Whose objects a request may be about.

IAM decides who may ask at all. A principal of a Team then acts for its namespaces alone: on nodes that carry only their
replicas, and on their workloads. A principal of no Team is an operator of the deployment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.team import Team, by_namespace
from reservoir.manifests.answers.operations import (
    ENVELOPE_VERBS,
    POOL_VERBS,
    WORKLOAD_VERBS,
    OperationRequest,
)
from reservoir.ports.policy import PolicyKind, PolicyStore
from reservoir.ports.system import Sender
from reservoir.usecases.policy.policy_objects import policy_of

_EVERYBODYS: Final = "it serves every team, and you may act for {who} only"
FindNode = Callable[[str], NodeClaim | None]  # by claim or instance id


@dataclass(frozen=True, slots=True)
class AuthoriseOperation:
    """Asks the Teams."""

    policy: PolicyStore
    find_node: FindNode

    def refusals(self, request: OperationRequest, sender: Sender) -> Mapping[str, str]:
        """Return why some of the request's objects are not the sender's to act on, by name."""
        policy = policy_of(
            row for row in self.policy.list_all() if row.kind is PolicyKind.TEAM
        )
        own = [team for team in policy.teams if team.principals and team.may_act(sender.id)]
        if not own and policy.unreadable:
            names = ", ".join(sorted(name for _, name in policy.unreadable))
            message = f"Team {names} cannot be read, and you may be one of its principals: apply it again, or delete it"
            return dict.fromkeys(request.names, message)
        if not own:
            return {}
        found = {name: self._refusal(request, name, own) for name in request.names}
        return {name: message for name, message in found.items() if message is not None}

    def _refusal(self, request: OperationRequest, name: str, own: list[Team]) -> str | None:
        who, owners = " and ".join(f"Team {team.name}" for team in own), by_namespace(own)
        if request.verb in POOL_VERBS | ENVELOPE_VERBS:
            return _EVERYBODYS.format(who=who)
        if request.verb in WORKLOAD_VERBS:
            return (
                None if name.partition("/")[0] in owners else f"it does not belong to {who}"
            )
        namespaces = self._namespaces_on(name)
        if others := namespaces - owners.keys():
            return f"it runs work of {', '.join(sorted(others))}, and you may act for {who} only"
        return None if namespaces else f"it runs no work of {who}"

    def _namespaces_on(self, node_name: str) -> set[str]:
        """Return whose work a node runs, or still waits for while it drains."""
        claim = self.find_node(node_name)
        if claim is None:
            return set()
        carried = claim.placements
        if not carried and claim.drain is not None:
            carried = claim.drain.awaiting
        return {placed.workload_key.partition("/")[0] for placed in carried}
