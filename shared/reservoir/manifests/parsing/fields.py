"""Field types that several manifests share: names, labels, quantities, durations, money."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from reservoir.core.scheduling_terms.labels import closest
from reservoir.core.scheduling_terms.quantity import QuantityError, parse_quantity
from reservoir.core.scheduling_terms.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NODES,
    PODS,
)
from reservoir.manifests.parsing import nearest

T = TypeVar("T")
Suggest = Callable[[], str | None]

# Validation context of objects that are stored already. What an earlier release took stays readable, whatever is
# refused of new ones: a class that could not be read any more would launch nothing from an update on.
STORED: Final = "stored"
LONGEST_NAME: Final = 253
_LONGEST_DURATION: Final = 32
# what Go, and so Karpenter, can hold: 292 years; 100 are written for never
_LARGEST_DURATION_S: Final = 2**63 // 10**9
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}
_MICRO: Final = 10**6
LARGEST_PRICE_USD: Final = 10**9
_PLAIN_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS, NODES)
# Other resources that EC2's instance types have; any name with a domain may be asked for.
EC2_RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "qualcomm.com/qaic",
    "vpc.amazonaws.com/efa",
)

_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WORD: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
NAME_PATTERN: Final = rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$"
NAMESPACE_PATTERN: Final = rf"^{_DNS_LABEL}$"
LABEL_KEY_PATTERN: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_WORD}$"
LABEL_VALUE_PATTERN: Final = rf"^({_WORD})?$"
DURATION_PATTERN: Final = r"^([0-9]+(h|m|s))+$"
QUANTITY_PATTERN: Final = (
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i|[numkMGTPE])|[eE][+-]?0*[0-9]{1,3})?$"
)


def broken(rule: str, message: str, suggest: Suggest | None = None) -> PydanticCustomError:
    """Make the error that a validator raises: a stable rule name, a sentence, and what finds the nearest valid form.

    The search is costly and a document can hold thousands of mistakes: it is done for the mistakes that are shown.
    """
    later = None if suggest is None else _Later(suggest)
    return PydanticCustomError(rule, "{message}", {"message": message, "suggest": later})


@dataclass(frozen=True, slots=True)
class _Later:
    """A search that may never be made. Pydantic prints all that an error carries, each time that it is passed on."""

    search: Suggest = field(repr=False)

    def __call__(self) -> str | None:
        return self.search()


def matching(
    rule: str,
    pattern: str,
    sentence: str,
    repair: Callable[[str], str | None] | None = None,
) -> Callable[[str], str]:
    """Make a validator that accepts only what the whole pattern matches; ``repair`` finds the nearest such text."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        # fullmatch, because $ also matches before a final newline
        if compiled.fullmatch(text) is None:
            raise broken(
                rule,
                sentence,
                None if repair is None else partial(_repaired, compiled, repair, text),
            )
        return text

    return check


def _check_key_prefix(key: str, info: ValidationInfo) -> str:
    """Refuse a prefix that is no DNS name, which has at most 253 characters.

    Earlier releases took such keys, and what they stored stays readable.
    """
    prefix, slash, _ = key.partition("/")
    if slash and len(prefix) > LONGEST_NAME and info.context != STORED:
        message = f"has more than {LONGEST_NAME} characters before its '/'"
        raise broken("label-key", message)
    return key


def an_id(prefix: str) -> AfterValidator:
    """Make a validator of ids that EC2 gives to things of one kind."""
    sentence = f"must be {prefix}- and then lower-case letters and digits"
    return AfterValidator(matching("id", rf"^{prefix}-[0-9a-z]{{1,40}}$", sentence))


def _repaired(
    pattern: re.Pattern[str], repair: Callable[[str], str | None], text: str
) -> str | None:
    """Return the repaired text, if that is valid."""
    nearest = repair(text) if len(text) <= LONGEST_NAME else None
    return nearest if nearest and pattern.fullmatch(nearest) else None


def _quantity_text(value: Any) -> Any:
    """Numbers are quantities too; a float's shortest text is what the user wrote."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return value


def _check_quantity(text: str) -> str:
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        raise broken("quantity", str(error), partial(nearest.quantity, text)) from error
    if value < 0:
        raise broken("quantity", "must not be negative")
    return text


def _check_count_or_quantity(value: Any) -> Any:
    text = _quantity_text(value)
    if not isinstance(text, str):
        raise broken("quantity", "must be a number or a quantity")
    _check_quantity(text)
    return value if isinstance(value, int) else text


def without_nulls(value: Any) -> Any:
    """Leave out keys without a value, as Kubernetes' API server does."""
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if item is not None}


def duration_s(text: str) -> int:
    """Seconds of a duration such as "1h30m"; the text must have passed the Duration type."""
    return sum(
        int(number) * _SECONDS[unit]
        for number, unit in re.findall(r"([0-9]+)([hms])", text)
    )


def _needs_unit(value: Any) -> Any:
    """Refuse a bare number where a duration belongs."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = f"must be a duration with its unit, such as {value}s or {value}m"
        raise broken("duration", message)
    return value


def check_duration(text: str) -> str:
    """Refuse a value that is no duration; raises PydanticCustomError."""
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_DURATION:
        _needs_unit(int(text))
    if len(text) > _LONGEST_DURATION or re.fullmatch(DURATION_PATTERN, text) is None:
        message = "must be a duration in h, m and s, such as 720h or 1h30m"
        raise broken("duration", message, partial(nearest.duration, text))
    if duration_s(text) > _LARGEST_DURATION_S:
        raise broken("duration", "must be at most 2562047h, which is 292 years")
    return text


def _check_duration_or_never(text: str) -> str:
    if text.lower() == "never" and text != "Never":
        raise broken("duration", "must be a duration, or Never", lambda: "Never")
    return text if text == "Never" else check_duration(text)


def optional_seconds(text: str | None) -> int | None:
    """Seconds of a duration, None for none."""
    return None if text is None else duration_s(text)


def seconds_or_never(text: str) -> int | None:
    """Seconds of a duration, None for "Never"."""
    return None if text == "Never" else duration_s(text)


def micro_usd(text: str) -> int:
    """Micro-USD of a price such as "98.32"; the text must have passed the Price type."""
    return (Fraction(text) * _MICRO).numerator


def _check_price(text: str) -> str:
    if (
        re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", text) is None
        or Fraction(text) > LARGEST_PRICE_USD
    ):
        message = 'must be a price in USD with at most 6 decimals, such as "98.32"'
        raise broken("price", message, partial(nearest.price, text))
    return text


def _check_resource(name: str) -> str:
    """Refuse what Kubernetes refuses: names without a domain are its own, and it has these."""
    if (
        "/" not in name
        and name not in _PLAIN_RESOURCES
        and not name.startswith("hugepages-")
    ):
        message = f"is no resource; without a domain there are {', '.join(_PLAIN_RESOURCES)} and hugepages-<size>"
        raise broken(
            "resource-name",
            message,
            partial(closest, name, [*_PLAIN_RESOURCES, *EC2_RESOURCES]),
        )
    return name


def check_distinct(values: list[T]) -> list[T]:
    """Refuse a list that names something twice; raises PydanticCustomError."""
    seen: list[T] = []
    for value in values:
        if value in seen:
            raise broken("distinct", f"lists {value} more than once")
        seen.append(value)
    return values


ObjectName = Annotated[
    str,
    Field(
        min_length=1, max_length=LONGEST_NAME, json_schema_extra={"pattern": NAME_PATTERN}
    ),
    AfterValidator(
        matching(
            "name",
            NAME_PATTERN,
            "must be lower-case letters, digits, '-' and '.', and begin and end with a letter or digit",
            nearest.object_name,
        )
    ),
]
Namespace = Annotated[
    str,
    Field(min_length=1, max_length=63, json_schema_extra={"pattern": NAMESPACE_PATTERN}),
    AfterValidator(
        matching(
            "namespace",
            NAMESPACE_PATTERN,
            "must be lower-case letters, digits and '-'",
            nearest.namespace,
        )
    ),
]
LabelKey = Annotated[
    str,
    Field(min_length=1, max_length=317, json_schema_extra={"pattern": LABEL_KEY_PATTERN}),
    AfterValidator(
        matching(
            "label-key",
            LABEL_KEY_PATTERN,
            "must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' and '.'",
            nearest.label_key,
        )
    ),
    AfterValidator(_check_key_prefix),
]
LabelValue = Annotated[
    str,
    Field(max_length=63, json_schema_extra={"pattern": LABEL_VALUE_PATTERN}),
    AfterValidator(
        matching(
            "label-value",
            LABEL_VALUE_PATTERN,
            "must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
            nearest.label_value,
        )
    ),
]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=256)]
Annotations = Annotated[
    dict[LabelKey, Annotated[str, Field(max_length=65_536)]], Field(max_length=256)
]
Quantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    AfterValidator(_check_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": QUANTITY_PATTERN},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]
# Whole numbers stay numbers when they are stored.
CountOrQuantity = Annotated[
    int | str,
    BeforeValidator(_check_count_or_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": QUANTITY_PATTERN},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]
ResourceName = Annotated[
    str,
    Field(min_length=1, max_length=317),
    AfterValidator(
        matching(
            "resource-name",
            LABEL_KEY_PATTERN,
            "must be a resource name such as cpu, memory or nvidia.com/gpu",
            nearest.label_key,
        )
    ),
    AfterValidator(_check_resource),
]
Duration = Annotated[
    str,
    BeforeValidator(_needs_unit),
    AfterValidator(check_duration),
    Field(json_schema_extra={"pattern": DURATION_PATTERN, "examples": ["6h"]}),
]
DurationOrNever = Annotated[
    str,
    BeforeValidator(_needs_unit),
    AfterValidator(_check_duration_or_never),
    Field(
        json_schema_extra={
            "pattern": rf"{DURATION_PATTERN}|^Never$",
            "examples": ["720h", "Never"],
        }
    ),
]
Price = Annotated[
    str,
    BeforeValidator(_quantity_text),
    AfterValidator(_check_price),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,6})?$"},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]
AccountId = Annotated[
    str, AfterValidator(matching("account-id", r"^[0-9]{12}$", "must be exactly 12 digits"))
]
