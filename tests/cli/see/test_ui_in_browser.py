"""The page of ``reservoir ui`` in a real browser: drawn, and without a violation that axe finds.

Skipped where there is no Chromium, and where tests run by themselves.
"""

from pathlib import Path
from typing import Any

import pytest

from reservoir.cli.ui.page import page
from tests.cli.browser import MARKS, SCHEMES, look
from tests.cli.see.test_status import stack
from tests.cli.see.test_ui import drawn, paid

__all__ = ["paid", "stack"]

pytestmark = MARKS
PHONE = 360
_STYLE = "<style>html {{ width: {width}px; }}</style>"


@pytest.mark.parametrize(("scheme", "background"), SCHEMES, ids=lambda it: it)
@pytest.mark.parametrize("width", [500, 1200])
def test_the_page_is_drawn_and_axe_finds_nothing(
    paid: Any, tmp_path: Path, scheme: str, background: str, width: int
) -> None:
    seen = look(page(drawn(paid)), tmp_path, scheme, width)
    assert seen["violations"] == []
    assert seen["page"] == background
    assert seen["width"] <= seen["window"], "the page itself must not scroll sideways"
    assert seen["focusable"] >= 8, (
        "links and tables that scroll are reached by the keyboard"
    )


def test_a_phone_of_360_pixels_needs_no_scrolling_sideways(
    paid: Any, tmp_path: Path
) -> None:
    # A window of Chromium is 500 pixels wide at least, so the page is given less of it.
    text = page(drawn(paid)).replace("</head>", f"{_STYLE.format(width=PHONE)}</head>")
    seen = look(text, tmp_path, "light", 500)
    assert seen["content"] <= PHONE
