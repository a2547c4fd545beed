"""Manifests as users see them again: in the form that they can apply."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from reservoir.manifests.parsing.fields import STORED

_FIRST_KEYS = ("apiVersion", "kind", "metadata", "spec", "status")


def wire_form(manifest: BaseModel) -> dict[str, Any]:
    """Return what the user gave, in normal form: fields that were left out stay out, server-side fields go."""
    data: dict[str, Any] = manifest.model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    return data


def says_the_same(stored: Mapping[str, Any], given: BaseModel) -> bool:
    """Whether a stored manifest and a given one mean the same: a field that is left out has its default."""
    return _without_defaults(stored, type(given)) == given.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )


def comparable(manifest: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a manifest as it is compared with another one: what only repeats a default is left out."""
    named = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
    return {**named, **(_without_defaults(manifest, model) or manifest)}


def _without_defaults(
    manifest: Mapping[str, Any], model: type[BaseModel]
) -> dict[str, Any] | None:
    """Return a manifest without its defaults, None when this release does not understand it."""
    try:
        known = model.model_validate(dict(manifest), context=STORED)
    except ValidationError:
        return None
    data: dict[str, Any] = known.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    return data


def in_field_order(manifest: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a stored manifest with its fields in the order of the model; stores do not keep the user's."""
    return wire_form(model.model_validate(dict(manifest), context=STORED))


def sorted_deeply(value: Any) -> Any:
    """Return JSON-ready values with all keys sorted, so that two of them can be compared line by line."""
    if isinstance(value, Mapping):
        return {key: sorted_deeply(value[key]) for key in sorted(value)}
    return [sorted_deeply(item) for item in value] if isinstance(value, list) else value


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write objects as YAML documents: long texts as blocks, everything else on one line, nothing unprintable."""
    return "---\n".join(_document(_ordered(item)) for item in objects)


def _document(data: Mapping[str, Any]) -> str:
    return yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, width=2**16, default_flow_style=False
    )


def _ordered(data: Mapping[str, Any]) -> dict[str, Any]:
    known = [key for key in _FIRST_KEYS if key in data]
    return {key: data[key] for key in (*known, *sorted(set(data) - set(known)))}


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and text of several lines as it reads."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat a value instead of pointing at it."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
