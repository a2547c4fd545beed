from collections.abc import Mapping
from typing import Any

from tests.infra.snapshot import FILE, normalised


def test_the_template_is_the_one_on_file(template: Mapping[str, Any]) -> None:
    assert normalised(template) == FILE.read_text(), (
        "meant? then run: python -m tests.infra.snapshot"
    )
