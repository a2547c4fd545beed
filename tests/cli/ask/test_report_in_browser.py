"""The report in a real browser: drawn, and without a violation that axe finds, in light and in dark.

Skipped where there is no Chromium, and where tests run by themselves.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reservoir.cli.report.figures import make_report
from reservoir.cli.report.page import page
from tests.cli.ask.report_world import SINCE, UNTIL, events, samples

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium")
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
ELEMENTS_MAX = 2000

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt-get install chromium"),
    pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core here: make setup"),
    pytest.mark.skipif(os.getenv("CI") is not None, reason="browsers are looked at by people, not by CI"),
]
# What is found wrong, how much there is, and how wide it is, written where the test can read it.
LOOK = """
addEventListener("load", () => setTimeout(() => axe.run().then(found => {
  const seen = document.createElement("pre");
  seen.id = "seen";
  seen.textContent = JSON.stringify({
    violations: found.violations.map(it => [it.id, it.nodes.map(node => node.html.slice(0, 120))]),
    elements: document.getElementsByTagName("*").length,
    width: document.documentElement.scrollWidth, window: innerWidth,
    page: getComputedStyle(document.body).backgroundColor,
  });
  document.body.append(seen);
}), 0));
"""


@pytest.mark.parametrize(
    ("scheme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 31)")], ids=lambda it: it
)
@pytest.mark.parametrize("width", [500, 1200])
def test_the_page_is_drawn_and_axe_finds_nothing(tmp_path: Path, scheme: str, background: str, width: int) -> None:
    text = page(make_report("production", SINCE, UNTIL, list(samples()), events()))
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # it would keep the scripts out
    axe = AXE.read_text(encoding="utf-8").replace("</script", "<\\/script")
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", f"<script>{axe}</script><script>{LOOK}</script></body>"), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - the browser of this machine, on a file of our own
        [
            str(CHROMIUM),
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            f"--window-size={width},2000",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-500:]
    seen = json.loads(html.unescape(found[1]))
    assert seen["violations"] == []
    assert seen["page"] == background
    assert seen["width"] <= seen["window"], "the page itself must not scroll sideways"
    assert seen["elements"] < ELEMENTS_MAX  # what the time to load goes by; the bench `report` measures it
