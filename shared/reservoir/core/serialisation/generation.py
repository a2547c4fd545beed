"""Generations that follow from content: the same content keeps its number, other content gets the next."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from reservoir.core.model.workload import Workload
from reservoir.core.serialisation.json_codec import dumps

_DIGITS: Final = 16  # 64 bits: two versions of one workload do not meet by accident


@dataclass(frozen=True, slots=True)
class StoredGeneration:
    """The generation that is stored under a workload's name.

    ``content_digest`` None: a withdraw came before any submit.
    """

    generation: int
    content_digest: str | None
    withdrawn: bool


def content_digest(workload: Workload) -> str:
    """Return a digest of everything that was asked for, whatever its generation."""
    return hashlib.sha256(dumps(replace(workload, generation=0)).encode()).hexdigest()[
        :_DIGITS
    ]


def next_generation(stored: StoredGeneration | None, workload: Workload) -> int:
    """Return the generation with which to submit ``workload``: that of the same content, else the one after.

    A withdrawn workload becomes wanted again, so even the same content needs a number that the withdraw did not have.
    """
    if stored is None:
        return 1
    if not stored.withdrawn and stored.content_digest == content_digest(workload):
        return stored.generation
    return stored.generation + 1


def has_become(
    stored: StoredGeneration | None, workload: Workload, generation: int
) -> bool | None:
    """Whether a submit of ``workload`` is stored; None while it has not been processed.

    False: other content has this generation or a higher one, or the workload was withdrawn since.
    """
    if stored is None or stored.generation < generation:
        return None
    is_equal = stored.content_digest == content_digest(workload) and not stored.withdrawn
    return is_equal and stored.generation == generation
