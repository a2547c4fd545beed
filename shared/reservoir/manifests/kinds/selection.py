"""Requirements, taints, tolerations and label selectors as manifests write them."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, FailFast, Field

from reservoir.core.model.workload import (
    LabelSelector,
    LabelSelectorExpression,
    LabelSelectorOperator,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement, integer_of
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import (
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import LabelKey, Labels, LabelValue, broken
from reservoir.manifests.parsing.model import Contradiction, IgnoredBecause, Model, text_in

MOST_REQUIREMENTS: Final = 100
MOST_VALUES: Final = 2_000  # more than there are instance types

_LISTED: Final = frozenset({Operator.IN, Operator.NOT_IN})
_BARE: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_BOUNDING: Final = frozenset(Operator) - _LISTED - _BARE


def _check_required_key(key: str) -> str:
    key = labels.stable_key(key)
    reason = labels.restriction(key)
    if reason is not None:
        raise broken(
            "label-restricted", reason, partial(labels.closest, key, labels.WELL_KNOWN)
        )
    return key


def integer_as_text(value: Any) -> Any:
    """Return a bare number as the text that it is meant as: the value of a label, or of a budget."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def check_count_or_percentage(rule: str, text: str) -> str:
    """Check that a text is a count or a percentage up to 100%; raises PydanticCustomError of this rule."""
    if re.fullmatch(r"(100|[0-9]{1,2})%|[0-9]{1,7}", text) is None:
        message = 'must be a count such as "5" or a percentage such as "10%"'
        raise broken(rule, message, partial(nearest.node_count, text))
    return text


RequiredKey = Annotated[
    LabelKey,
    AfterValidator(_check_required_key),
    # any key is valid; the enum is what editors offer
    Field(
        json_schema_extra={
            "anyOf": [{"enum": sorted(labels.WELL_KNOWN)}, {"type": "string"}]
        }
    ),
]
RequiredValue = Annotated[LabelValue, BeforeValidator(integer_as_text)]
# Enums are text on the wire; everything else stays strict.
OperatorField = Annotated[Operator, Field(strict=False)]
EffectField = Annotated[TaintEffect, Field(strict=False)]


# Labels of a pool's nodes that nobody chooses; a requirement of a workload may name them.
OWN_LABELS: Final[Mapping[str, str]] = {
    labels.NODE_POOL: "is set to the pool's own name",
    labels.NODE_CLASS: "is set to the name of the pool's class",
}


def _asks_for_windows(key: str, raw: Mapping[str, Any]) -> bool:
    """Whether a requirement leaves nothing but Windows, whatever else the pool says."""
    given, operator = raw.get("values"), raw.get("operator")
    values = given if isinstance(given, list) else []
    if key == labels.OS:
        wants_others = operator == Operator.IN and "linux" not in values
        return ("windows" in values and wants_others) or (
            operator == Operator.NOT_IN and "linux" in values
        )
    return key == labels.WINDOWS_BUILD and operator not in (
        Operator.NOT_IN,
        Operator.DOES_NOT_EXIST,
    )


class NodeSelectorRequirement(Model):
    """One requirement on a node label."""

    key: RequiredKey
    operator: OperatorField
    # Only the first wrong value is reported: thousands of them would cost every reader time.
    values: Annotated[list[RequiredValue], FailFast()] = Field(
        default_factory=list, max_length=MOST_VALUES
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check the number and kind of values against the operator, and well-known labels against what they can be."""
        operator, values = text_in(raw, "operator"), raw.get("values", [])
        if not isinstance(values, list):
            return
        if operator in _LISTED and not values:
            yield Contradiction("values", "values", f"{operator} needs at least one value")
        if operator in _BARE and values:
            yield Contradiction("values", "values", f"{operator} takes no values")
        if operator in _BOUNDING and not _is_one_integer(values):
            yield Contradiction("values", "values", f"{operator} needs exactly one integer")
        if operator in _LISTED:
            yield from unknown_values(raw.get("key"), values)

    def to_core(self) -> Requirement:
        """Return the requirement of the core."""
        return Requirement.new(self.key, self.operator, self.values, self.least_values())

    def least_values(self) -> int | None:
        """Return how many distinct values must remain; only pools ask for that."""
        return None


def _is_one_integer(values: list[Any]) -> bool:
    return len(values) == 1 and integer_of(str(values[0])) is not None


def unknown_values(key: object, values: list[Any]) -> Iterator[Contradiction]:
    """Yield values that a well-known label can never have."""
    stable = labels.stable_key(key) if isinstance(key, str) else ""
    known = labels.KNOWN_VALUES.get(stable)
    for value in values if known is not None else ():
        if (
            isinstance(value, str)
            and known is not None
            and labels.stable_value(stable, value) not in known
        ):
            yield Contradiction(
                "values",
                "label-value-unknown",
                f"{stable} is never {value[:63]!a}; it is one of {', '.join(known)}",
                partial(labels.closest, value, known),
            )


class PoolRequirement(NodeSelectorRequirement):
    """A requirement of a NodePool, which may also ask for flexibility."""

    min_values: int | None = Field(
        default=None,
        ge=1,
        le=50,
        description="That many distinct values must remain among the instance types.",
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check also that enough values are listed for minValues."""
        yield from super().contradictions(raw)
        least, values = raw.get("minValues"), raw.get("values", [])
        too_few = (
            isinstance(least, int) and isinstance(values, list) and len(values) < least
        )
        if raw.get("operator") == Operator.IN and too_few:
            yield Contradiction(
                "minValues",
                "min-values",
                "is more than the number of values that are listed",
            )

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the pool asks for nothing that none of its nodes can have."""
        key = text_in(raw, "key")
        if labels.is_of_auto_mode(key):
            message = (
                "is a label of EKS Auto Mode without a counterpart here: no node has it"
            )
            yield Contradiction("key", "auto-mode", message)
        if key in OWN_LABELS:
            yield Contradiction("key", "label-restricted", OWN_LABELS[key])
        if _asks_for_windows(labels.stable_key(key), raw):
            message = "Windows is not served: instance types are known by what they are and cost with Linux"
            yield Contradiction(
                "values" if "values" in raw else "operator", "windows", message
            )

    def least_values(self) -> int | None:
        """Return minValues."""
        return self.min_values


def requirements_of(listed: list[NodeSelectorRequirement]) -> Requirements:
    """Intersect requirements into the core's set."""
    return Requirements.of(*(requirement.to_core() for requirement in listed))


class TaintSpec(Model):
    """A taint."""

    key: LabelKey
    value: LabelValue = ""
    effect: EffectField
    time_added: Annotated[
        Any, IgnoredBecause("timeAdded is set by Kubernetes and has no effect here")
    ] = None

    def to_core(self) -> Taint:
        """Return the taint of the core."""
        return Taint(self.key, self.value, self.effect)


class TolerationSpec(Model):
    """A toleration."""

    key: LabelKey | None = None
    operator: Annotated[TolerationOperator, Field(strict=False)] = TolerationOperator.EQUAL
    value: LabelValue = ""
    effect: EffectField | None = None
    toleration_seconds: Annotated[
        Any,
        IgnoredBecause(
            "tolerationSeconds has no effect: drains follow the Node Draining protocol"
        ),
    ] = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check the combinations that Kubernetes refuses."""
        exists = raw.get("operator") == TolerationOperator.EXISTS
        if not raw.get("key") and not exists:
            yield Contradiction(
                "key", "toleration", "is required unless operator is Exists"
            )
        if raw.get("value") and exists:
            yield Contradiction(
                "value", "toleration", "must be empty when operator is Exists"
            )

    def to_core(self) -> Toleration:
        """Return the toleration of the core."""
        return Toleration(self.key or "", self.operator, self.value, self.effect)


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: LabelKey
    operator: Annotated[LabelSelectorOperator, Field(strict=False)]
    values: Annotated[list[LabelValue], FailFast()] = Field(
        default_factory=list, max_length=MOST_VALUES
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check the number of values against the operator."""
        operator, values = text_in(raw, "operator"), raw.get("values", [])
        if operator in _LISTED and not values:
            yield Contradiction("values", "values", f"{operator} needs at least one value")
        if operator in _BARE and values:
            yield Contradiction("values", "values", f"{operator} takes no values")

    def to_core(self) -> LabelSelectorExpression:
        """Return the expression of the core."""
        return LabelSelectorExpression(self.key, self.operator, frozenset(self.values))


class LabelSelectorSpec(Model):
    """Selects workloads by their labels; an empty selector selects all."""

    match_labels: Labels = Field(default_factory=dict)
    match_expressions: list[LabelSelectorRequirement] = Field(
        default_factory=list, max_length=MOST_REQUIREMENTS
    )

    def to_core(self, also: Mapping[str, str] | None = None) -> LabelSelector:
        """Return the selector of the core; ``also`` are labels that must match too."""
        return LabelSelector(
            tuple(sorted({**self.match_labels, **(also or {})}.items())),
            tuple(expression.to_core() for expression in self.match_expressions),
        )
