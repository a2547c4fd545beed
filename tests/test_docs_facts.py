"""What documents say of this repository is so: paths, tables, names."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.bench.__main__ import benches
from reservoir.manifests.events import EVENTS
from reservoir.names import Table, indexes, output_name
from tests.test_docs import PAGES
from tests.test_tidy import ROOT, name_of, tracked

ADRS = sorted((ROOT / "docs" / "adr").glob("*.md"))


def first_columns(page: Path) -> Iterator[str]:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("|--"):
            yield line.split("|")[1].strip()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page: Path) -> None:
    """A path is written in full, or as seen from the page or (of the scheduler) from the core; a name anywhere.

    Settings files of deployments are whoever deploys' own.
    """
    told = re.findall(
        r"`([\w.*-]+(?:/[\w.*-]+)+/?)`|`([\w-]+\.(?:py|md|yaml|json|toml))`",
        page.read_text(encoding="utf-8"),
    )
    paths = [
        one or other
        for one, other in told
        if re.search(r"\.(py|md|yaml|json|toml|txt)$|/$", one or other)
    ]
    bases = (ROOT, page.parent, ROOT / "shared" / "reservoir" / "core")
    names = {path.name for path in tracked()}
    missing = [
        path
        for path in paths
        if not any(any(base.glob(path.rstrip("/"))) for base in bases)
    ]
    assert [
        path
        for path in missing
        if path not in names and not path.startswith("deployments/")
    ] == []


def test_the_readme_tells_what_each_part_of_the_repository_is() -> None:
    told = " ".join(first_columns(ROOT / "README.md"))
    parts = {path.relative_to(ROOT).parts[0] for path in tracked()} - {
        "README.md",
        ".git-blame-ignore-revs",
        ".gitignore",
    }
    assert [part for part in sorted(parts) if f"`{part}" not in told] == []


def test_the_readme_leads_to_every_page() -> None:
    """Or the page of decisions does; what it does not lead to is no page of the site (``tests/site``)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [
        name_of(path) for path in PAGES if path not in ADRS and path != ROOT / "README.md"
    ]
    assert [page for page in pages if f"({page})" not in text] == []


def test_the_architecture_page_tells_every_fact_that_leaves() -> None:
    titles = {event.detail_type for event in EVENTS}
    section = (
        (ROOT / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("## Facts that leave")[1]
        .split("## ")[0]
    )
    told = set(re.findall(r"^\| ([A-Z][\w ]+?) \|", section, flags=re.MULTILINE))
    assert told == titles


def test_the_architecture_page_tells_the_partitions_of_every_table_and_index() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## Large fleets")[1].split("\n## ")[0]
    told = re.findall(r"^\| ([A-Z]\w+(?: `[\w-]+`)?) \|", section, flags=re.MULTILINE)
    names = {table: output_name(table.name) for table in Table}
    wanted = {
        *names.values(),
        *(f"{names[table]} `{index}`" for table in Table for index in indexes(table)),
    }
    assert sorted(told) == sorted(wanted)


@pytest.mark.parametrize(
    "page", [path for path in PAGES if path.name != "reference.md"], ids=name_of
)
def test_events_are_called_by_their_names(page: Path) -> None:
    titles = {event.detail_type for event in EVENTS}
    told = re.findall(
        r"`((?:Workload|Node|Launch|Launches|Reservation|Policy) [A-Z]\w+(?: [A-Z]\w+)*)`",
        page.read_text("utf-8"),
    )
    assert [title for title in told if title not in titles] == []


def test_benches_are_called_by_their_names() -> None:
    known = {name for bench, module in benches() for name in (bench, *module.cases())}
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    section = page.split("## What Reservoir adds")[1]
    named = re.findall(r"`((?:ledger|reserved|diverse|catalogue)-[\w-]+)`", section)
    assert named
    assert [case for case in named if case not in known] == []
    for only in re.findall(
        r"make bench ONLY=([\w-]+)", " ".join(path.read_text("utf-8") for path in PAGES)
    ):
        assert only == "name" or only in known, only


def _row_of_results(name: str) -> list[str]:
    """Return the cells of the only row of the benches' results that begins so."""
    lines = (ROOT / "lab" / "bench" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {name} |")]
    return [cell.strip(" *") for cell in row.strip("| ").split("|")[1:]]


def _ours_and_theirs(name: str) -> tuple[list[float], list[float]]:
    """Return a row of the peers' table, one figure a world."""
    pairs = [
        [float(each) for each in re.findall(r"[\d.]+", cell.replace(",", ""))]
        for cell in _row_of_results(name)
    ]
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


def test_figures_of_the_comparison_are_those_of_the_results() -> None:
    page = " ".join((ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").split())
    used, used_there = _ours_and_theirs("reserved unit hours in use, of all")
    moved, moved_there = _ours_and_theirs("replicas moved by choice")
    waited, waited_there = _ours_and_theirs("time to capacity, p50")
    paid, paid_there = _ours_and_theirs("bought, USD")
    hours, hours_there = _ours_and_theirs("node hours")
    shares = [
        "{:.1f}, {:.1f} and {:.1f} %".format(*(100 * each for each in row))
        for row in (used, used_there)
    ]
    times = [
        f"{theirs / ours:.0f}" for ours, theirs in zip(moved, moved_there, strict=True)
    ]
    dearer = [
        100 * (theirs / ours - 1) for ours, theirs in zip(paid, paid_there, strict=True)
    ]
    fewer = [
        100 * (1 - theirs / ours) for ours, theirs in zip(hours, hours_there, strict=True)
    ]
    leased, tried = (
        _row_of_results("`ledger-memory-2`")[1],
        _row_of_results("`ledger-karpenter-2`")[1:3],
    )
    launched, refused = (int(each.strip("* ").replace(",", "")) for each in tried)
    share = 100 * refused / (launched + refused)
    for sentence in (
        f"Reservoir has {shares[0]} of the reserved unit hours in use, Karpenter's rules {shares[1]}",
        f"they move {times[0]}, {times[1]} and {times[2]} times as many replicas by choice",
        "have capacity after {} and {} s".format(
            ", ".join(map(str, waited[:2])), waited[2]
        ),
        "with Karpenter's rules after {} and {} s".format(
            ", ".join(map(str, waited_there[:2])), waited_there[2]
        ),
        f"({-dearer[0]:.1f} % less, with those moves; {dearer[1]:.0f} and {dearer[2]:.0f} % more in",
        f"({fewer[0]:.0f}, {fewer[1]:.0f} and {fewer[2]:.0f} % fewer node hours)",
        f"of {launched + refused:,} launches that they try, EC2 refuses {share:.0f} % ({refused:,})",
        f"with leases it refuses none of {leased}",
    ):
        assert sentence in page, sentence


def test_what_the_glossary_writes_as_a_class_is_one() -> None:
    words = {
        word
        for column in first_columns(ROOT / "docs" / "glossary.md")
        for word in column.split(", ")
    }
    classes = {name for path in (ROOT / "shared").rglob("*.py") for name in names_in(path)}
    named = {word for word in words if re.fullmatch(r"(?:[A-Z][a-z]+)+", word)}
    assert named >= {"NodePool", "Requirement"}
    assert named - classes == set()


def test_every_bench_is_described() -> None:
    page = (ROOT / "lab" / "bench" / "README.md").read_text(encoding="utf-8")
    families = {
        name: {"-".join(case.split("-")[:2]) for case in module.cases()} | {name}
        for name, module in benches()
    }
    assert [
        name for name, told in families.items() if not any(each in page for each in told)
    ] == []


def test_every_warning_about_manifests_is_told() -> None:
    modules = [
        ROOT / "shared" / "reservoir" / "manifests" / name
        for name in ("crosscheck.py", "kinds/launch_limits.py")
    ]
    place_of_rule = {"Doubt": 3, "Excess": 1}
    rules = set()
    for call in (
        node
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    ):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in place_of_rule
        ):
            arguments = call.args[place_of_rule[call.func.id] :][:1]
            rules |= {
                argument.value
                for argument in arguments
                if isinstance(argument, ast.Constant)
            }
    page = (ROOT / "docs" / "manifests.md").read_text(encoding="utf-8")
    table = page.split("| rule | a pool, class or workload")[1].split("\n\n")[0]
    assert len(rules) > 10
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, flags=re.MULTILINE)) == rules


def test_rules_that_comments_name_are_told() -> None:
    told = set(
        re.findall(
            r"^\| (R-\d+|rule \d+) \|",
            (ROOT / "docs" / "rules.md").read_text(),
            flags=re.MULTILINE,
        )
    )
    named = {
        (name_of(path), rule)
        for path in tracked(".py")
        for rule in re.findall(r"\b(R-\d+|rule \d+)\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > len({path for path, _ in named}) > 1
    assert {(path, rule) for path, rule in named if rule not in told} == set()


def names_in(module: Path) -> set[str]:
    """Return what a module defines: its functions, classes and constants, and the methods of its classes."""
    found = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
            methods = node.body if isinstance(node, ast.ClassDef) else []
            found |= {
                f"{node.name}.{part.name}"
                for part in methods
                if isinstance(part, ast.FunctionDef)
            }
    return found


def test_the_page_about_the_code_leads_to_what_exists() -> None:
    """A path and, beside it or in the next column, what to look for there."""
    page = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
    told = [
        (path, name)
        for path, names in re.findall(
            r"`([\w/]+\.py)` (?:\| )?((?:`[\w.]+`(?:, )?)+)", page
        )
        for name in re.findall(r"`([\w.]+)`", names)
    ]
    assert len(told) > 40
    assert [(path, name) for path, name in told if name not in names_in(ROOT / path)] == []


def anchors(page: Path) -> set[str]:
    """Return what a code host, and the site, call the headings of a page."""
    text = re.sub(
        r"^```.*?^```$",
        "",
        page.read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    # of links in headings only the words count
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    seen: Counter[str] = Counter()
    named = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        named.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return named


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    links = re.findall(
        r"\]\((?!https?:|mailto:)([^)\s#]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")
    )
    broken = [
        (to, heading)
        for to, heading in links
        if heading not in anchors((page.parent / to) if to else page)
    ]
    assert broken == []


def test_pages_that_comments_cite_exist() -> None:
    citation = re.compile(r"\b((?:docs|lab/bench)/[\w/-]+\.md)(?:#([\w-]+))?")
    cited = {
        (name_of(path), page, heading)
        for path in tracked(".py", ".yaml", ".toml")
        for page, heading in citation.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert {
        c
        for c in cited
        if not (ROOT / c[1]).is_file() or (c[2] and c[2] not in anchors(ROOT / c[1]))
    } == set()


def test_decisions_are_listed_by_subject_with_what_replaced_them() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d+)\]\(adr/([\w.-]+)\)\s+(.+)$", page, flags=re.MULTILINE)
    told = []
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].partition(". ")[2]
        replaced = re.search(r"Superseded\*{0,2} by \[(?:ADR )?(\d+)\]", text)
        status = "" if replaced is None else f" (superseded by {replaced[1]})"
        taken_up = re.search(r"^\*Takes up ([\d, ]+)\.\*$", text, flags=re.MULTILINE)
        earlier = "" if taken_up is None else f" (with {taken_up[1]})"
        told.append((str(int(path.name[:4])), path.name, title + status + earlier))
    assert sorted(listed, key=lambda row: int(row[0])) == told


def test_decisions_that_are_cited_have_a_page() -> None:
    numbers = {int(path.name[:4]) for path in ADRS}
    citation = re.compile(r"\bADRs?\s+(\d+)|\bdecision\s+\[?(\d+)\]?\(")
    cited = {
        (name_of(path), int(number or linked))
        for path in tracked(".py", ".md", ".yaml", ".toml", ".ts", ".go")
        for number, linked in citation.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert {(page, number) for page, number in cited if number not in numbers} == set()


def test_decisions_are_numbered_and_have_one_form() -> None:
    numbers = [int(path.name[:4]) for path in ADRS]
    assert sorted(set(numbers)) == numbers
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, flags=re.MULTILINE) == [
            "Context",
            "Decision",
            "Alternatives",
            "Consequences",
        ], path
