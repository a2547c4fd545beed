"""Whether a sender may ask for what a message asks for.

Who sends is what SQS says (``SenderId``), never what a message says of itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reservoir.core.model.team import Team, TeamLimits, may_reach
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import DO_NOT_DISRUPT
from reservoir.manifests.messages import AnyMessage, SubmitMessage
from reservoir.manifests.parsing.fields import optional_seconds
from reservoir.manifests.parsing.problems import ManifestError, Problem, shown
from reservoir.ports.state import UnreadableRowsError

_NO_LIMITS = TeamLimits()


@dataclass(frozen=True, slots=True)
class DemandRules:
    """What of policy concerns demand. ``unreadable_teams`` name those whose namespaces nobody can tell."""

    node_pool_names: frozenset[str] = frozenset()
    teams: Mapping[str, Team] = field(default_factory=dict)  # by namespace
    unreadable_teams: tuple[str, ...] = ()

    def authorise(self, message: AnyMessage, sender_id: str | None) -> TeamLimits:
        """Return the limits of the namespace that a message is about.

        Raises
        ------
        ManifestError
            The sender may not act for the namespace, or not ask for so much.
        UnreadableRowsError
            The namespace may be one of a team that cannot be read.
        """
        namespace = message.workload.metadata.namespace
        team = self.teams.get(namespace)
        if team is None:
            if self.unreadable_teams:
                raise UnreadableRowsError(self.unreadable_teams)
            return _NO_LIMITS
        if not team.may_act(sender_id):
            raise ManifestError([_not_permitted(team, namespace, sender_id)])
        if isinstance(message, SubmitMessage):
            spec, limits = message.workload.spec, team.limits
            notice_s = optional_seconds(spec.checkpoint_period)
            notice = limits.checkpoint_period_s
            problems = [
                Problem(f"workload.spec.{name}", "team-limit", f"{asked} is more than the {most} that {who} allows")
                for name, asked, most in (
                    ("priority", spec.priority, limits.priority),
                    ("replicas", spec.replicas, limits.replicas),
                )
                for who in [f"Team {team.name}"]
                if most is not None and asked > most
            ]
            if notice_s is not None and notice is not None and notice_s > notice:
                longer = f"{spec.checkpoint_period} is more than the {notice} s that Team {team.name} allows"
                problems.append(Problem("workload.spec.checkpointPeriod", "team-limit", longer))
            wanted = message.workload.to_core()
            if wanted.do_not_disrupt and not limits.do_not_disrupt:
                path = f"workload.metadata.annotations['{DO_NOT_DISRUPT}']"
                problems.append(Problem(path, "team-limit", f"Team {team.name} does not allow it"))
            if problems:
                raise ManifestError(problems)
        return team.limits

    def refuse_reach(self, wanted: Workload) -> None:
        """Refuse required affinity to namespaces of teams that do not allow it. Raises ManifestError.

        Anti-affinity binds both sides: one replica a zone would keep another team out of a region.
        """
        problems = [
            Problem(
                f"workload.spec.affinity.{kind}",
                "not-permitted",
                f"{shown(name)} belongs to Team {self.teams[name].name}, which lets no replicas of others be placed"
                " by its own (affinityFrom)",
            )
            for kind, terms in (("podAffinity", wanted.affinity), ("podAntiAffinity", wanted.anti_affinity))
            for name in sorted({name for term in terms if term.weight is None for name in term.namespaces})
            if not may_reach(self.teams, wanted.namespace, name)
        ]
        if problems:
            raise ManifestError(problems)


def refuse_jump(generation: int, stored_generation: int, limits: TeamLimits) -> None:
    """Refuse a generation so far above the stored one that it would leave none to its successors.

    Raises ManifestError.
    """
    most = limits.generation_jump
    if most is not None and generation > stored_generation + most:
        message = f"is more than {most} above the stored generation, {stored_generation}"
        problem = Problem(
            "workload.metadata.generation", "generation-jump", message, suggestion=str(stored_generation + 1)
        )
        raise ManifestError([problem])


def _not_permitted(team: Team, namespace: str, sender_id: str | None) -> Problem:
    who = "who sent it" if sender_id is None else shown(sender_id)
    message = f"{who} is no principal of Team {team.name}, to which {namespace} belongs"
    return Problem("workload.metadata.namespace", "not-permitted", message)
