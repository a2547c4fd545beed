"""The base of all models that read what users write."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError

from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.parsing.fields import STORED, Suggest, broken
from reservoir.manifests.parsing.problems import shown

# Of one object: these many help an author who made more by mistake, and an author who made them on purpose must not
# have the rest searched.
_MOST_ERRORS: Final = 10
_MOST_ERRORS_WITHIN: Final = 200  # and of what is in it


@dataclass(frozen=True, slots=True)
class IgnoredBecause:
    """Marks a field that is accepted for Karpenter's sake and has no effect, with the reason."""

    reason: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add it for editors."""
        return {
            **handler(core_schema),
            "description": f"Ignored: {self.reason}.",
            "deprecated": True,
        }


@dataclass(frozen=True, slots=True)
class RefusedBecause:
    """Marks a field of Karpenter's that would mean something here and is not served, with the reason.

    ``harmless`` values ask for nothing, as an empty one does.
    """

    reason: str
    harmless: tuple[object, ...] = ()

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add it for editors, which then mark every value but null."""
        del core_schema, handler
        return {"type": "null", "description": f"Not served: {self.reason}."}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two or more fields that exclude each other (or a set of which one must be given)."""

    field: str
    rule: str
    message: str
    suggest: Suggest | None = None


class Model(BaseModel):
    """A strict, frozen model in camelCase that reports everything that is wrong at once.

    A validator that runs after the fields does not run when a field is wrong. Rules about several fields therefore
    read the raw value, in :meth:`contradictions`, and unknown fields are reported beside all other errors.
    """

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        defer_build=True,  # a cold start pays for the models that it uses only
        alias_generator=to_camel,
        use_enum_values=False,
        serialize_by_alias=True,
    )

    # fields of other versions, with what replaced them
    moved: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Yield problems of fields taken together; the values of ``raw`` are not validated yet."""
        del raw
        yield from ()

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Yield what is refused of new objects and accepted where it is stored already."""
        del raw
        yield from ()

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield fields whose value means something else than Kubernetes' users expect, with what it means."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _validate_all(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if not isinstance(value, dict):
            return handler(value)
        fields = cls.wire_fields()
        # Kubernetes' API server prunes a null before it fills in defaults: Helm leaves many behind.
        value = {
            name: item
            for name, item in value.items()
            if item is not None or name not in fields
        }
        unknown = (
            _unknown_field(name, value[name], fields, cls.moved)
            for name in value
            if name not in fields
        )
        refused = () if info.context == STORED else cls.refusals(value)
        contradictions = map(_contradiction, chain(cls.contradictions(value), refused))
        found = chain(unknown, _not_served(value, cls._refused_fields()), contradictions)
        errors = list(islice(found, _MOST_ERRORS))
        if len(errors) < _MOST_ERRORS:
            try:
                valid = handler(
                    {name: item for name, item in value.items() if name in fields}
                    if errors
                    else value
                )
            except ValidationError as error:
                if not errors and error.error_count() <= _MOST_ERRORS_WITHIN:
                    raise
                within = islice(error.errors(include_url=False), _MOST_ERRORS_WITHIN)
                errors.extend(map(_restated, within))
            else:
                if not errors:
                    return valid
        raise ValidationError.from_exception_data(cls.__name__, errors)

    @classmethod
    @cache
    def wire_fields(cls) -> Mapping[str, FieldInfo]:
        """Return the fields by the name that users write."""
        return {info.alias or name: info for name, info in cls.model_fields.items()}

    @classmethod
    @cache
    def _refused_fields(cls) -> Mapping[str, RefusedBecause]:
        """Return why fields that are known are not served, by the name that users write."""
        return {
            name: marker
            for name, info in cls.wire_fields().items()
            for marker in info.metadata
            if isinstance(marker, RefusedBecause)
        }


def _unknown_field(
    name: object, value: object, fields: Mapping[str, FieldInfo], moved: Mapping[str, str]
) -> InitErrorDetails:
    text = name if isinstance(name, str) else shown(name)
    if text in moved:
        custom = broken("unknown-field", f"is not a known field: {moved[text]}", lambda: "")
    else:
        custom = broken(
            "unknown-field", "is not a known field", partial(closest, text, fields)
        )
    return InitErrorDetails(type=custom, loc=(text,), input=value)


def _contradiction(found: Contradiction) -> InitErrorDetails:
    custom = broken(found.rule, found.message, found.suggest)
    return InitErrorDetails(
        type=custom, loc=(found.field,) if found.field else (), input=None
    )


def _not_served(
    raw: Mapping[str, Any], refused: Mapping[str, RefusedBecause]
) -> Iterator[InitErrorDetails]:
    for name, marker in refused.items():
        if raw.get(name) not in (None, {}, [], *marker.harmless):
            yield InitErrorDetails(
                type=broken("not-served", f"is not served: {marker.reason}"),
                loc=(name,),
                input=None,
            )


def _restated(error: ErrorDetails) -> InitErrorDetails:
    """Turn a reported error back into one that can be raised again beside others."""
    context = error.get("ctx", {})
    kind: str | PydanticCustomError = error["type"]
    if "message" in context:
        kind = broken(error["type"], context["message"], context.get("suggest"))
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"], ctx=context)


def text_in(raw: Mapping[str, Any], name: str) -> str:
    """Return a raw field if it is text, else nothing: raw values may be of any kind."""
    value = raw.get(name)
    return value if isinstance(value, str) else ""
