"""The process's adapters."""

from functools import cache

from shared.runtime.adapters import Adapters
from shared.runtime.settings import Settings


@cache
def adapters() -> Adapters:
    """Return the process's adapters; raises SettingsError when the environment lacks settings."""
    return Adapters(Settings.from_environment())
