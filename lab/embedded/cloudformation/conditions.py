"""Conditions of templates with ``Fn::Join``, which MiniStack does not read there: the CDK's bootstrap has some.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-conditions.html
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Mapping
from typing import Any

from ministack.services.cloudformation import changesets, engine, handlers, stacks

Parameters = Mapping[str, Mapping[str, Any]]


def install() -> None:
    """Put the text in the place of what is joined before conditions are evaluated."""
    evaluate = engine._evaluate_conditions

    def evaluating(template: Mapping[str, Any], parameters: Parameters) -> Any:
        conditions = _joined(template.get("Conditions", {}), parameters)
        return evaluate({**template, "Conditions": conditions}, parameters)

    for module in (engine, changesets, handlers, stacks):
        module._evaluate_conditions = evaluating


def _joined(value: Any, parameters: Parameters) -> Any:
    match value:
        case {"Fn::Join": [str(separator), parts]}:
            return separator.join(_parts(_joined(parts, parameters), parameters))
        case dict():
            return {key: _joined(each, parameters) for key, each in value.items()}
        case list():
            return [_joined(each, parameters) for each in value]
    return value


def _parts(value: Any, parameters: Parameters) -> list[str]:
    """Return what is joined: a list parameter's members, or the parts themselves."""
    if isinstance(value, dict):
        text = str(parameters[value["Ref"]]["Value"])
        return text.split(",") if text else []
    return [
        str(parameters[part["Ref"]]["Value"]) if isinstance(part, dict) else part
        for part in value
    ]
