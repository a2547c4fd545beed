"""What a class's kubelet keeps from replicas: the amounts of its configuration that mean something without kubelet."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from reservoir.core.model.node_class import KubeletAmounts
from reservoir.core.scheduling_terms.quantity import (
    QuantityError,
    byte_count,
    cpu_millis,
    parse_quantity,
)
from reservoir.core.scheduling_terms.resources import CPU, MEMORY
from reservoir.manifests.parsing.problems import shown

_COUNTS: Final = ("maxPods", "podsPerCore")
_RESERVED: Final = ("kubeReserved", "systemReserved")
_EVICTION: Final = ("evictionHard", "evictionSoft")
# those whose meaning remains; the rest of kubelet's configuration is for kubelet
_COUNTED: Final = (*_COUNTS, *_RESERVED, *_EVICTION)
NOTE: Final = (
    f"has no effect outside Kubernetes, but for {', '.join(_COUNTS)}, cpu and memory of {' and '.join(_RESERVED)}, and"
    f" memory.available of {' and '.join(_EVICTION)}"
)
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_MEMORY_SIGNAL: Final = "memory.available"
_LARGEST_COUNT: Final = 2**31 - 1
_MILLION: Final = 10**6


def refusals(kubelet: Any) -> Iterator[str]:
    """Yield what is wrong with the amounts; Karpenter's server or controller refuses the same."""
    if not isinstance(kubelet, Mapping):
        yield "must be a mapping"
        return
    for name in _COUNTS:
        if kubelet.get(name) is not None and _count(kubelet[name]) is None:
            yield f"{name}: must be a whole number that is not negative: no kubelet evaluates an expression"
    for name in _RESERVED:
        yield from _wrong_amounts(kubelet, name, _RESERVABLE, _quantity)
    for name in _EVICTION:
        yield from _wrong_amounts(kubelet, name, _SIGNALS, _threshold)


def amounts(kubelet: Any) -> KubeletAmounts | None:
    """Return the amounts, None where there are none; what an earlier release stored unread and is wrong counts not."""
    if not isinstance(kubelet, Mapping):
        return None
    reserved = {CPU: 0, MEMORY: 0}
    for name in _RESERVED:
        given = _mapping(kubelet, name)
        if _quantity(given.get(CPU)) is not None:
            reserved[CPU] += cpu_millis(given[CPU])
        if _quantity(given.get(MEMORY)) is not None:
            reserved[MEMORY] += byte_count(given[MEMORY])
    thresholds = [
        read
        for name in _EVICTION
        if (read := _threshold(_mapping(kubelet, name).get(_MEMORY_SIGNAL))) is not None
    ]
    found = KubeletAmounts(
        max_pods=_count(kubelet.get("maxPods")),
        pods_per_core=_count(kubelet.get("podsPerCore")) or None,
        reserved_cpu_millis=reserved[CPU],
        reserved_memory_bytes=reserved[MEMORY],
        evicted_memory_bytes=max((each[0] for each in thresholds), default=0),
        evicted_memory_ppm=max((each[1] for each in thresholds), default=0),
    )
    return None if found == KubeletAmounts() else found


def is_ignored(kubelet: Any) -> bool:
    """Whether something in it is for kubelet alone."""
    if not isinstance(kubelet, Mapping):
        return False
    given = {name for name in kubelet if kubelet[name] is not None}
    of_reserved = set[str]().union(*(_mapping(kubelet, name) for name in _RESERVED))
    of_eviction = set[str]().union(*(_mapping(kubelet, name) for name in _EVICTION))
    return bool(
        given - set(_COUNTED)
        or of_reserved - {CPU, MEMORY}
        or of_eviction - {_MEMORY_SIGNAL}
    )


def _mapping(kubelet: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = kubelet.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= _LARGEST_COUNT else None


def _quantity(value: Any) -> Fraction | None:
    if not isinstance(value, str):
        return None
    try:
        found = parse_quantity(value)
    except QuantityError:
        return None
    return found if found >= 0 else None


def _threshold(value: Any) -> tuple[int, int] | None:
    """Return a threshold as bytes and as millionths of what there is: one of them is 0."""
    if not isinstance(value, str):
        return None
    if not value.endswith("%"):
        found = _quantity(value)
        return None if found is None else (byte_count(value), 0)
    part = _quantity(value[:-1])
    if part is None or part > 100:
        return None
    # kubelet reads 100 % as: never
    return 0, 0 if part == 100 else int(part * _MILLION / 100)


def _wrong_amounts(
    kubelet: Mapping[str, Any], name: str, known: tuple[str, ...], read: Any
) -> Iterator[str]:
    given = kubelet.get(name)
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield f"{name}: must be a mapping"
        return
    for key, value in given.items():
        if key not in known:
            yield f"{name}: {shown(key)} is not one of {', '.join(known)}"
        elif read(value) is None:
            yield f"{name}.{key}: {shown(value)} is no amount, such as 100Mi" + (
                " or 5%" if known is _SIGNALS else ""
            )
