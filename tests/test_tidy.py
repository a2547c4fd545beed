"""Keeps the written style true: what no linter of ours checks."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

import reservoir

ROOT = Path(__file__).resolve().parent.parent
HANDLER_LINES_MAX = 70
ROOM_MODULES_MAX = 15
FUNCTION_LINES_MAX = 90  # without the docstring; most of the longest are lists of arguments

# This file names what it looks for; contract tests run on a real account only when somebody agrees to pay for it.
MAY_SKIP = (
    Path(__file__),
    ROOT / "tests/embedded/ec2/contract/conftest.py",
    ROOT / "tests/formal/conftest.py",  # where spin is not installed
    ROOT / "tests/integrations/test_containers.py",  # where podman starts no container
    ROOT / "tests/integrations/test_other_languages.py",  # without Go or npm's packages
    ROOT / "tests/integrations/test_ray.py",  # where Ray is not installed
    ROOT / "tests/integrations/test_slurm.py",  # where Slurm is not installed
    ROOT / "tests/oracle/java.py",  # where there is no Java
    ROOT / "tests/upgrades/conftest.py",  # a shallow clone has no previous release
)

# Named in parts, so that this file does not hold what it looks for.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"))
)
MACHINE_PATHS = tuple("/" + path for path in ("work/", "root/", "home/", "Users/"))


def tracked(*suffixes: str) -> list[Path]:
    """Return the files that are in the repository, or are about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607 - whatever git this is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    paths = [ROOT / name for name in sorted(set(listed)) if name]
    return [
        path
        for path in paths
        if path.is_file() and (not suffixes or path.suffix in suffixes)
    ]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions_in(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count lines from `def` to the end, without the docstring."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return length


def test_rooms_can_be_taken_in_at_a_glance() -> None:
    """What makes a folder a package or belongs to all of it counts as none of its modules."""
    of_the_folder = {"__init__.py", "__main__.py", "conftest.py"}
    rooms = Counter(
        name_of(path.parent) for path in tracked(".py") if path.name not in of_the_folder
    )
    assert {
        room: modules for room, modules in rooms.items() if modules > ROOM_MODULES_MAX
    } == {}


def test_handlers_are_thin() -> None:
    handlers = [
        path
        for path in tracked(".py")
        if path.name == "handler.py" and path.parts[-3] == "functions"
    ]
    long = {
        name_of(path): lines_of(path)
        for path in handlers
        if lines_of(path) > HANDLER_LINES_MAX
    }
    assert long == {}


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{name_of(path)}:{function.lineno} {function.name}": length_of(function)
        for path in tracked(".py")
        for function in functions_in(ast.parse(path.read_text(encoding="utf-8")))
        if length_of(function) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_a_class_has_a_name_of_its_own() -> None:
    """Within what functions are made of; programs and the emulated EC2 may call their things as others do."""
    product = ROOT / "shared" / "reservoir"
    programs = tuple(product / room for room in ("agent", "cli", "client"))
    named: dict[str, set[str]] = {}
    for path in tracked(".py"):
        is_product = path.is_relative_to(product) and not any(
            path.is_relative_to(room) for room in programs
        )
        if is_product or path.is_relative_to(ROOT / "functions"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    named.setdefault(node.name.lstrip("_"), set()).add(name_of(path))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_fakes_behave_instead_of_mocks() -> None:
    imported = {
        name_of(path)
        for path in tracked(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unittest"))
        or (
            isinstance(node, ast.Import)
            and any(alias.name.startswith(("unittest", "mock")) for alias in node.names)
        )
    }
    assert imported == set()


def test_the_tests_are_all_run() -> None:
    skipped = [
        name_of(path)
        for path in tracked(".py")
        if path not in MAY_SKIP
        and re.search(r"pytest\.(mark\.)?(skip|xfail)\b", path.read_text(encoding="utf-8"))
    ]
    assert skipped == []


def test_readme_commands_exist() -> None:
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    )
    told = {
        (name_of(path), command)
        for path in tracked(".md")
        for command in re.findall(
            r"(?:^ {4}|`|\$ )make ([a-z]+)",
            path.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    }
    assert {command for _, command in told} >= {"demo", "test"}
    assert {(page, command) for page, command in told if command not in targets} == set()


def test_the_changelog_says_nothing_twice() -> None:
    """Merging by union keeps both versions of lines that two branches changed."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line.startswith("- ")]
    assert sorted(entries) == sorted(set(entries))


def test_modules_that_documents_start_exist() -> None:
    """Ours, or those of an installed package (``python -m pytest``)."""
    told = {
        (name_of(path), module)
        for path in tracked(".md")
        for module in re.findall(
            r"python -m ([a-z_]+(?:\.[a-z_]+)*)", path.read_text(encoding="utf-8")
        )
    }
    assert {(page, module) for page, module in told if find_spec(module) is None} == set()


LINE_MAX = 120
# Made from the models.
MAY_BE_WIDE = {"docs/reference.md"}


@pytest.mark.parametrize(
    "page",
    [page for page in tracked(".md") if name_of(page) not in MAY_BE_WIDE],
    ids=name_of,
)
def test_prose_fits_into_a_terminal_and_a_diff(page: Path) -> None:
    """A table's row is a line, and what programs print is shown as they print it."""
    text = page.read_text(encoding="utf-8")
    own = re.sub(r"^```\w*\n.*?^```$", _own_lines, text, flags=re.MULTILINE | re.DOTALL)
    assert [
        line
        for line in own.splitlines()
        if len(line) > LINE_MAX and not line.startswith("|")
    ] == []


def _own_lines(block: re.Match[str]) -> str:
    """Leave out a block that shows what a program prints."""
    return "" if re.match(r"```(?:text|console)?\n", block[0]) else block[0]


@pytest.mark.parametrize("page", tracked(".md"), ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    links = re.findall(
        r"\]\((?!https?:|mailto:|#)([^)\s#]+)", page.read_text(encoding="utf-8")
    )
    assert [link for link in links if not (page.parent / unquote(link)).exists()] == []


def test_ours_is_the_only_package_called_reservoir() -> None:
    """A distribution of that name exists that is somebody else's."""
    assert set(metadata.packages_distributions().get("reservoir", ())) <= {"reservoir-ec2"}
    assert Path(str(reservoir.__file__)).is_relative_to(ROOT)


def test_no_file_names_a_registry_or_somebodys_machine() -> None:
    found = {
        (name_of(path), word)
        for path in tracked()
        for word in (*REGISTRY_HOSTS, *MACHINE_PATHS)
        if word in path.read_text(encoding="utf-8", errors="ignore")
    }
    assert found == set()


def test_locks_hold_hashes_and_agree() -> None:
    locked = {path.stem: path.read_text() for path in (ROOT / "requirements").glob("*.txt")}
    assert set(locked) == {"dev", "ray", "runtime", "uv"}
    pins = {
        name: set(
            re.findall(r"^[a-z0-9._-]+==[^\\\n]+?(?= \\?$)", text, flags=re.MULTILINE)
        )
        for name, text in locked.items()
    }
    assert all(pins.values())
    assert pins["runtime"] < pins["dev"]
    assert pins["uv"] < pins["dev"]
    named = {pin.partition("==")[0] for pin in pins["dev"]}
    assert {
        pin for pin in pins["ray"] - pins["dev"] if pin.partition("==")[0] in named
    } == set()
    for text in locked.values():
        assert "://" not in text
        assert text.count("--hash=sha256:") >= text.count("==")


def test_make_installs_into_its_own_environment_whichever_is_active() -> None:
    done = subprocess.run(
        ["make", "--eval=shown: ; @echo $$VIRTUAL_ENV", "shown"],  # noqa: S607 - whatever make this is
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "VIRTUAL_ENV": "/somebody/elses"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(ROOT / ".venv")


def test_packages_of_npm_run_nothing_when_they_are_installed() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "$(NPM) ci" in line]
    assert installs
    assert all("--ignore-scripts" in line for line in installs)
    carried = (ROOT / "shared/reservoir/cli/carried_checkout.py").read_text(
        encoding="utf-8"
    )
    assert '"ci", "--ignore-scripts"' in carried
