"""The deployment's own tags for its instances, from a variable of the functions."""

import json
from collections.abc import Mapping

from reservoir import names
from reservoir.runtime.environment import SettingsError


def launch_tags(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Read the tags; none without the variable. Raises SettingsError."""
    text = environment.get(names.LAUNCH_TAGS) or "{}"
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{names.LAUNCH_TAGS} cannot be read: {error}") from error
    if not isinstance(given, dict) or not all(
        isinstance(value, str) for value in given.values()
    ):
        raise SettingsError(f"{names.LAUNCH_TAGS} must be an object of texts")
    return given
