"""Looks at a page in a real browser, with axe: drawn, wide, and what is wrong with it."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# Of a module that looks: without a browser there is nothing to look with.
MARKS = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium here: apt-get install chromium"
    ),
    pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core here: make setup"),
    pytest.mark.skipif(
        os.getenv("CI") is not None, reason="browsers are looked at by people, not by CI"
    ),
]
# What is found wrong, how much there is, and how wide it is, written where the test can read it.
_LOOK = """
addEventListener("load", () => setTimeout(() => axe.run().then(found => {
  const seen = document.createElement("pre");
  seen.id = "seen";
  seen.textContent = JSON.stringify({
    violations: found.violations.map(it => [it.id, it.nodes.map(node => node.html.slice(0, 120))]),
    elements: document.getElementsByTagName("*").length,
    width: document.documentElement.scrollWidth, window: innerWidth,
    content: document.body.scrollWidth,
    page: getComputedStyle(document.body).backgroundColor,
    focusable: document.querySelectorAll("a[href], [tabindex='0'], summary").length,
  });
  document.body.append(seen);
}), 0));
"""
# and the colour of the page
SCHEMES = [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 31)")]


def look(text: str, folder: Path, scheme: str, width: int) -> Any:
    """Open a page in a window of this width and colour scheme, and return what was seen."""
    # it would keep the scripts out
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    axe = AXE.read_text(encoding="utf-8").replace("</script", "<\\/script")
    file = folder / "page.html"
    file.write_text(
        text.replace("</body>", f"<script>{axe}</script><script>{_LOOK}</script></body>"),
        encoding="utf-8",
    )
    done = subprocess.run(  # noqa: S603 - the browser of this machine, on a file of our own
        [
            str(CHROMIUM),
            *(
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=20000",
            ),
            f"--user-data-dir={folder / 'profile'}",
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
    return json.loads(html.unescape(found[1]))
