"""Taints and tolerations, with Kubernetes' own matching."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TaintEffect(StrEnum):
    """What a taint does to replicas that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A mark on a node that keeps replicas away unless they tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __str__(self) -> str:
        if self.value:
            return f"{self.key}={self.value}:{self.effect}"
        return f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """A workload's permission to run in spite of a taint.

    An empty key with Exists tolerates every taint; no effect means every effect.
    """

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers ``taint``."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.operator is TolerationOperator.EXISTS:
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


# What a relaxed workload adds when some pool has a PreferNoSchedule taint (R-47, last step).
TOLERATE_ALL_PREFER_NO_SCHEDULE: Final = Toleration(
    operator=TolerationOperator.EXISTS, effect=TaintEffect.PREFER_NO_SCHEDULE
)

# Taints that a starting node carries and loses by itself.
_EPHEMERAL_TAINTS: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE),
        ("node.kubernetes.io/unreachable", TaintEffect.NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect.NO_SCHEDULE),
        ("karpenter.sh/unregistered", TaintEffect.NO_EXECUTE),
    }
)
_READINESS_PREFIX: Final = "readiness.k8s.io/"


def is_ephemeral(taint: Taint) -> bool:
    """Whether a starting node loses this taint by itself (R-20)."""
    return (taint.key, taint.effect) in _EPHEMERAL_TAINTS or taint.key.startswith(
        _READINESS_PREFIX
    )


def binding_taints(
    taints: Iterable[Taint], startup_taints: Iterable[Taint] = (), *, initialized: bool
) -> tuple[Taint, ...]:
    """Return the taints that count for placing replicas on a node (R-20, R-21).

    Until the node is initialised, ephemeral taints and the pool's startup taints do not; afterwards all do.
    A claim that is only being planned is a node that is not initialised.
    """
    if initialized:
        return tuple(taints)
    startup = frozenset(startup_taints)
    return tuple(
        taint for taint in taints if taint not in startup and not is_ephemeral(taint)
    )


def tolerates_all(
    taints: Iterable[Taint], tolerations: Iterable[Toleration]
) -> Taint | None:
    """Return the first taint that nothing tolerates, or None when all are tolerated.

    Every effect counts, PreferNoSchedule too (R-19); it stops counting by relaxation only.
    """
    return next(untolerated(taints, tolerations), None)


def untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration]
) -> Iterator[Taint]:
    """Yield the taints that nothing tolerates, in their order."""
    permitted = tuple(tolerations)
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in permitted):
            yield taint
