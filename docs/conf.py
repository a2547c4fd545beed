"""How Sphinx makes a site of the documents (``make docs``); the pages are those that a code host shows.

The source folder is the whole repository, so that a link between two pages is the same in both.
"""

import re
from pathlib import Path
from typing import Any, Final

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

REPOSITORY: Final = Path(__file__).parent.parent
DECISIONS: Final = "docs/decisions"

project = "Reservoir"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["**.md"]
exclude_patterns = [".*", "cdk.out", "node_modules", "**/node_modules"]
nitpicky = True
myst_heading_anchors = 4

html_theme = "furo"
html_title = project
html_show_copyright = False
html_copy_source = False
# The library that draws diagrams is the locked one: a page needs nothing from elsewhere, wherever it is opened.
html_static_path = ["site", str(REPOSITORY / "node_modules/@mermaid-js/tiny/dist")]
html_css_files = ["site.css"]
html_js_files = [("diagrams.js", {"defer": "defer"})]


def navigation(readme: str) -> str:
    """Return the tables of contents of the site: the questions of the README's section "Read on", by their headings."""
    _, _, questions = readme.partition("\n## Read on\n")
    questions, _, _ = questions.partition("\n## ")
    tables = []
    for part in questions.split("\n### ")[1:]:
        caption, _, rows = part.partition("\n")
        plain = []
        for question, pages in re.findall(
            r"^\| (.+?) \| (\[.+) \|$", rows, flags=re.MULTILINE
        ):
            links = re.findall(r"\[([^\]]+)\]\(([\w/-]+)\.md\)", pages)
            # Of several pages that answer one question each has its own name.
            plain += [
                f"{(question if len(links) == 1 else name).replace('`', '')} <{page}>"
                for name, page in links
            ]
        tables.append(_contents(plain, ":hidden:", f":caption: {caption}"))
    return "\n".join(tables)


def _contents(entries: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def _add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    if page == root_doc:
        source[0] += navigation(source[0])
    elif page == DECISIONS:
        source[0] += _contents(["adr/*"], ":glob:")


def setup(app: Sphinx) -> dict[str, Any]:
    """Say that diagrams are no language to colour, and where navigation comes from."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
