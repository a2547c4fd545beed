"""The template on file: a change of it is seen in review, and never happens by accident.

``python -m tests.infra.snapshot`` writes it anew.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from reservoir.names import DEFAULT_STACK
from tests.infra.synthesis import template_app

FILE: Final = Path(__file__).parent / "template.snapshot.txt"


def normalised(template: Mapping[str, Any]) -> str:
    """Write one resource or output a line, sorted, without what changes with every edit of the code: asset hashes."""
    lines = [
        f"{section} {name} {json.dumps(part, sort_keys=True)}\n"
        for section in ("Outputs", "Parameters", "Resources")
        for name, part in sorted(template[section].items())
    ]
    return re.sub(r"[0-9a-f]{64}", "<asset>", "".join(lines))


def main() -> None:
    """Synthesise and write the file."""
    with tempfile.TemporaryDirectory() as folder:
        template_app(Path(folder)).synth()
        FILE.write_text(
            normalised(
                json.loads((Path(folder) / f"{DEFAULT_STACK}.template.json").read_text())
            )
        )


if __name__ == "__main__":
    main()
