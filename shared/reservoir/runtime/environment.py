"""Reading of single variables of a function's environment."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

Choice = TypeVar("Choice", bound=StrEnum)


class SettingsError(Exception):
    """The environment lacks settings, or one cannot be read; names all of them."""


def choice(environment: Mapping[str, str], name: str, default: Choice) -> Choice:
    """Read one of the values of the default's class. Raises SettingsError."""
    kind = type(default)
    try:
        return kind(environment.get(name) or default)
    except ValueError as error:
        raise SettingsError(f"{name} must be one of {', '.join(kind)}") from error


def switch(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read "true" or "false". Raises SettingsError."""
    text = environment.get(name) or str(default).lower()
    if text not in ("true", "false"):
        raise SettingsError(f"{name} must be true or false")
    return text == "true"


def whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Read a number that is not negative. Raises SettingsError."""
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name} must be a whole number")
    return int(text)
