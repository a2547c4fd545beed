"""Workload systems: they submit, change and withdraw demand, and answer drains, more or less well."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.core.scheduling_terms import labels

NAMESPACE: Final = "research"
POOL: Final = "pool"
ASIDE: Final = "aside"  # another, in some worlds, whose class selects no reservation
_LIVE_MAX: Final = 5
_LATELY: Final = 12  # messages
_SMALL: Final = {"requests": {"cpu": "1500m", "memory": "4Gi"}}
_LARGE: Final = {"requests": {"cpu": "7", "memory": "24Gi"}}
_GPU: Final = {"requests": {"nvidia.com/gpu": 8}}
_RESERVED_ONLY: Final = {labels.CAPACITY_TYPE: "reserved"}
# What workloads of these kinds ask for beside replicas.
KINDS: Final[tuple[Mapping[str, Any], ...]] = (
    {"resources": _SMALL},
    {"resources": _SMALL, "priority": 10},
    {"resources": _LARGE},
    {"resources": _LARGE, "gang": True},
    {"resources": _LARGE, "checkpointPeriod": "20m"},
    {"resources": _GPU},
    {"resources": _GPU, "nodeSelector": _RESERVED_ONLY},
    {"resources": _GPU, "duration": "30m"},
    {
        "resources": _SMALL,
        "fallback": [
            {"capacityType": "reserved", "for": "3m"},
            {"capacityType": "on-demand"},
        ],
    },
    {"resources": _LARGE, "nodeSelector": _RESERVED_ONLY},
)

# As kinds, of users who choose between two pools that share nothing; whoever does not choose takes either.
BOUND: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"resources": resources, "nodeSelector": {labels.NODE_POOL: pool}, **more}
    for pool in (POOL, ASIDE)
    for resources, more in ((_SMALL, {}), (_LARGE, {}), (_LARGE, {"gang": True}))
)
# for the same reserved units
CONTENDED: Final = tuple(kind for kind in KINDS if kind["resources"] is _LARGE)


# What may be said of workloads that run, by those who would have more, or others less.
_CHANGES: Final[tuple[Mapping[str, Any], ...]] = (
    {"resources": _SMALL},
    {"resources": _LARGE},
    {"checkpointPeriod": "40m"},
    {"priority": 20},
)


# How what runs may be replaced: in a Deployment's way, one after the other, or some at once; or not at all.
_STRATEGIES: Final[tuple[Mapping[str, Any] | None, ...]] = (
    {"type": "RollingUpdate"},
    {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
    None,
)


@dataclass
class Wanted:
    """What its users want of a workload now."""

    name: str
    spec: Mapping[str, Any]
    replicas: int
    generation: int = 1
    withdrawn: bool = False
    namespace: str = NAMESPACE
    # of the spec: more than are kept beside replicas that run would be refused
    changes: int = 0

    @property
    def key(self) -> str:
        """The identity: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def reserved_only(self) -> bool:
        """Whether only reservations may serve it."""
        return self.spec.get("nodeSelector") == _RESERVED_ONLY

    def message(self) -> str:
        """Return the message that says so."""
        metadata = {
            "namespace": self.namespace,
            "name": self.name,
            "generation": self.generation,
        }
        workload: dict[str, Any] = {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": metadata,
        }
        if self.withdrawn:
            return json.dumps({"action": "withdraw", "workload": workload})
        workload["spec"] = {**self.spec, "replicas": self.replicas}
        return json.dumps({"action": "submit", "workload": workload})


@dataclass
class Users:
    """All users. ``send`` puts a message into the demand queue."""

    kernel: Kernel
    chance: Chance
    send: Callable[[str], None]
    wanted: dict[str, Wanted] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    kinds: Sequence[Mapping[str, Any]] = KINDS
    namespaces: Sequence[str] = (NAMESPACE,)
    busy: bool = False  # something every few seconds, and often several messages at once
    # what is wanted of workloads that run is changed, beside how many
    changing: bool = False
    resting: bool = False  # nothing new is wanted from now on
    # whether who has just submitted something changes their mind
    takes_back: Callable[[], bool] = lambda: False

    def act(self) -> None:
        """Do something now, and again after a while."""
        if self.resting:
            return
        if self.busy and not self.wanted:
            for delay_s in (2, 5, 8):  # passes that follow each other at once
                self.kernel.after(delay_s * SECOND, self._submit)
        live = [each for each in self.wanted.values() if not each.withdrawn]
        choice = self.chance.between("users", 0, 9)
        if len(live) < 2 or (choice < 4 and len(live) < _LIVE_MAX):
            self._submit()
        elif choice < 6:
            self._resize(live[self.chance.between("users", 0, len(live) - 1)])
        elif choice < 8:
            self._withdraw(live[self.chance.between("users", 0, len(live) - 1)])
        elif self.sent:
            # an old message again
            self.send(self.sent[self.chance.between("users", 0, len(self.sent) - 1)])
        if self.busy and self.chance.between("users", 0, 2) == 0:
            self._resize(live[0]) if live else self._submit()
        longest = 40 * SECOND if self.busy else 5 * MINUTE
        self.kernel.after(self.chance.between("users", 5 * SECOND, longest), self.act)

    def send_again(self) -> None:
        """Say once more what is wanted: the deployment may have forgotten it."""
        for workload in self.wanted.values():
            self.send(workload.message())

    def send_what_was_sent(self) -> None:
        """Let old messages come once more, in any order, as who sends dead letters again after a restore lets them."""
        for body in self.sent[-_LATELY:]:
            if self.chance.between("sent_again", 0, 1):
                late = self.chance.between("sent_again", SECOND, 5 * MINUTE)
                self.kernel.after(late, partial(self.send, body))

    def want_one_more(self) -> Wanted:
        """Submit a small workload that any capacity serves."""
        workload = Wanted(f"job-{len(self.wanted) + 1}", KINDS[0], 1)
        self._say(workload)
        return workload

    def _submit(self) -> None:
        name = f"job-{len(self.wanted) + 1}"
        spec = self.kinds[self.chance.between("users", 0, len(self.kinds) - 1)]
        most = 2 if spec["resources"] is _GPU else 6
        namespace = self.namespaces[0]
        if len(self.namespaces) > 1:
            namespace = self.namespaces[
                self.chance.between("teams", 0, len(self.namespaces) - 1)
            ]
        workload = Wanted(
            name, spec, self.chance.between("users", 1, most), namespace=namespace
        )
        self._say(workload)
        if self.takes_back():
            self.kernel.after(
                self.chance.between("taken_back", SECOND // 5, 4 * SECOND),
                partial(self._take_back, workload),
            )

    def _resize(self, workload: Wanted) -> None:
        most = 2 if workload.spec["resources"] is _GPU else 6
        workload.generation += 1
        workload.replicas = self.chance.between("users", 0, most)
        if self.changing and workload.changes < len(_CHANGES):
            workload.spec = {**workload.spec, **self._change(workload)}
            workload.changes += 1
        self._say(workload)

    def _change(self, workload: Wanted) -> Mapping[str, Any]:
        """Return what else is said of a workload from now on; one of GPUs keeps to them."""
        choice = _CHANGES[self.chance.between("changes", 0, len(_CHANGES) - 1)]
        if "resources" in choice and workload.spec["resources"] is _GPU:
            choice = {}
        if "gang" in workload.spec:
            return choice
        strategy = _STRATEGIES[self.chance.between("strategies", 0, len(_STRATEGIES) - 1)]
        # else a checkpointPeriod would have it handed over
        return {**choice, "strategy": strategy, "handover": False}

    def _withdraw(self, workload: Wanted) -> None:
        # the same generation withdraws, too
        workload.generation += self.chance.between("users", 0, 1)
        workload.withdrawn = True
        self._say(workload)

    def _take_back(self, workload: Wanted) -> None:
        """Withdraw what was just submitted, as it was submitted."""
        if not workload.withdrawn and not self.resting:
            workload.withdrawn = True
            self._say(workload)

    def _say(self, workload: Wanted) -> None:
        self.wanted[workload.key] = workload
        self.sent.append(workload.message())
        self.send(self.sent[-1])

    def hear(self, detail_type: str, detail: Detail) -> None:
        """Answer a drain: most replicas leave in time and say so, others never do."""
        if detail_type != "Node Draining" or self.chance.between("release", 0, 9) < 3:
            return
        for workload in detail["workloads"]:
            metadata = {"namespace": workload["namespace"], "name": workload["name"]}
            body = {
                "action": "release",
                "workload": {"metadata": metadata},
                "nodeClaim": detail["node"]["nodeClaim"],
            }
            answered_after = self.chance.between("release", SECOND, 4 * MINUTE)
            self.kernel.after(answered_after, partial(self.send, json.dumps(body)))
