"""Fields that a newer release wrote: kept by name, as JSON, and written back as they were.

Functions of two releases work side by side while a deployment replaces one by one, and after it is rolled back. A value
that is read, changed and written must not lose what only the other release understands.
"""

from collections.abc import Mapping
from typing import Final

_MARK: Final = "keeps_unknown"
# The metadata of the field in which a dataclass keeps them; ``serialisation.json_codec`` fills and writes it.
KEEPS_UNKNOWN: Final[Mapping[str, bool]] = {_MARK: True}


def keeps_unknown(metadata: Mapping[str, object]) -> bool:
    """Whether a field's metadata says that it is such a field."""
    return metadata.get(_MARK) is True
