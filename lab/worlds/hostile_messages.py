"""Messages made to cost whoever refuses them as much as they can, each as large as is read at all."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from reservoir.core.scheduling_terms.labels import ARCH, INSTANCE_CPU, INSTANCE_TYPE, ZONE
from reservoir.manifests.parsing.structure import (
    LARGEST_MESSAGE_BYTES,
    MOST_VALUES_OF_A_MESSAGE,
)

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def hostile_messages() -> Mapping[str, str]:
    """Return the messages by what is wrong with them."""
    return {name: _largest(make) for name, make in _MAKERS.items()}


def _largest(make: Callable[[int], str]) -> str:
    """Return the largest that is read; ``make`` gets about how many values it may have."""
    values = MOST_VALUES_OF_A_MESSAGE - 100
    while len(message := make(values)) > LARGEST_MESSAGE_BYTES:
        values = values * 9 // 10
    return message


def _submit(spec: Mapping[str, Any], **metadata: Any) -> str:
    named = {"name": "costly", "namespace": "hostile", **metadata}
    workload = {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": named,
        "spec": spec,
    }
    return json.dumps({"action": "submit", "workload": workload})


def _terms(terms: list[dict[str, Any]], **beside: Any) -> str:
    required = {
        **beside,
        "nodeSelectorTerms": [{**beside, "matchExpressions": [term]} for term in terms],
    }
    return _submit(
        {**beside, "affinity": {**beside, "nodeAffinity": {**beside, _REQUIRED: required}}}
    )


def _misspelt_everywhere(count: int) -> str:
    """Write unknown fields into objects of all levels, so that each level reports those below it again."""
    third = count // 3
    inner = {f"require{index}": 1 for index in range(third)}
    middle = {**{f"nodeAffinit{index}": 1 for index in range(third)}, "nodeAffinity": inner}
    return _submit({**{f"replica{index}": 1 for index in range(third)}, "affinity": middle})


def _other_types(number: int) -> dict[str, object]:
    values = [f"t{number}.{value}" for value in range(190)]
    return {"key": INSTANCE_TYPE, "operator": "NotIn", "values": values}


def _heavy(count: int) -> str:
    """Write what is valid, but more than a workload may have."""
    values = [f"v{value}" for value in range(3)]
    expressions = [
        {"key": f"example.com/k{index}", "operator": "NotIn", "values": values}
        for index in range(count // 10 // 20)
    ]
    term = {"matchExpressions": expressions}
    return _submit(
        {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term] * 20}}}}
    )


_MAKERS: Final[Mapping[str, Callable[[int], str]]] = {
    "misspelt fields of many": lambda count: _submit(
        {
            "topologySpreadConstraints": [
                {f"labelSelecto{index:03}": 1 for index in range(count // 51)}
            ]
            * 50
        }
    ),
    "misspelt fields": _misspelt_everywhere,
    "misspelt fields of tolerations": lambda _: _submit(
        {"tolerations": [{"operato": "x", "ke": "b"}] * 100}
    ),
    "bad values": lambda count: _terms(
        [{"x": 1, "key": INSTANCE_CPU, "operator": "In", "values": ["!"] * (count // 12)}]
        * 10,
        x=1,
    ),
    "misspelt values": lambda count: _terms(
        [{"key": ARCH, "operator": "In", "values": ["amd63"] * (count // 12)}] * 10
    ),
    "misspelt labels": lambda _: _submit(
        {"nodeSelector": {f"{ZONE[:-1]}{index}": "!" for index in range(100)}}
    ),
    "long labels": lambda _: _submit(
        {}, labels={f"!{index:0240}": "!" for index in range(250)}
    ),
    "long quantities": lambda _: _submit(
        {"resources": {"requests": {f"a.b/c{index}": "9" * 1_800 for index in range(64)}}}
    ),
    "bad fallback steps": lambda count: _submit(
        {"fallback": [{"capacityType": "spo"}] * (count // 3)}
    ),
    "values": lambda count: json.dumps({"action": "submit", "workload": ["x"] * count}),
    "digits": lambda _: "[" + "1e308," * (LARGEST_MESSAGE_BYTES // 6 - 2) + "1]",
    "one key": lambda _: (
        "{" + ",".join(f'"a{index}":1' for index in range(11_000)) + ',"a1":2}'
    ),
    "depth": lambda _: "[" * (LARGEST_MESSAGE_BYTES - 1),
    "annotations": lambda _: _submit(
        {}, annotations={f"a{index}": "x" * 60_000 for index in range(2)}
    ),
    "constraints": _heavy,
    "constraint values": lambda _: _terms([_other_types(number) for number in range(12)]),
}
