"""The report in a real browser: drawn, and without a violation that axe finds, in light and in dark.

Skipped where there is no Chromium, and where tests run by themselves.
"""

from pathlib import Path

import pytest

from reservoir.cli.report.figures import make_report
from reservoir.cli.report.page import page
from tests.cli.ask.report_world import SINCE, UNTIL, events, samples
from tests.cli.browser import MARKS, SCHEMES, look

ELEMENTS_MAX = 2000

pytestmark = MARKS


@pytest.mark.parametrize(("scheme", "background"), SCHEMES, ids=lambda it: it)
@pytest.mark.parametrize("width", [500, 1200])
def test_the_page_is_drawn_and_axe_finds_nothing(
    tmp_path: Path, scheme: str, background: str, width: int
) -> None:
    text = page(make_report("production", SINCE, UNTIL, list(samples()), events()))
    seen = look(text, tmp_path, scheme, width)
    assert seen["violations"] == []
    assert seen["page"] == background
    assert seen["width"] <= seen["window"], "the page itself must not scroll sideways"
    # what the time to load goes by; the bench `report` measures it
    assert seen["elements"] < ELEMENTS_MAX
