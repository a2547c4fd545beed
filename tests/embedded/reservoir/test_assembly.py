"""An assembly is made once from the same sources, and anew when one of them changes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from infra.naming import DEPLOYMENT_CONTEXT, EMBEDDED_CONTEXT
from lab.embedded.reservoir.assembly import (
    LEAVE_ASSETS,
    ROOT,
    SOURCES,
    Synthesis,
    key_of,
    write_settings,
)

# Runs app.py and tells which files it opened.
WATCHED = """
import json, os, runpy, sys
os.environ.update(json.loads(sys.argv[1]))
opened = set()
sys.addaudithook(lambda event, arguments: opened.add(str(arguments[0])) if event == "open" else None)
runpy.run_path("app.py", run_name="__main__")
print(json.dumps(sorted(opened)))
"""
# installed from the locks, or built from the sources
NOT_SOURCES = (".venv", ".build", ".git", "node_modules")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that has everything an assembly is made from, each a file of one line."""
    for name in SOURCES:
        path = tmp_path / name if Path(name).suffix else tmp_path / name / "some.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    return tmp_path


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def opened_by_a_synthesis(outdir: Path, context: Mapping[str, object]) -> set[Path]:
    variables = {
        "CDK_OUTDIR": str(outdir),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_VALIDATION": "false",
    }
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", WATCHED, json.dumps(variables)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (
        Path(os.path.abspath(ROOT / name))  # noqa: PTH100 - links stay
        for name in json.loads(done.stdout.splitlines()[-1])
    )
    return {
        source_of(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)
    }


def source_of(path: Path) -> Path:
    """Return the module whose bytecode a file is, or the file itself."""
    is_bytecode = path.suffix == ".pyc" or ".pyc." in path.name
    return path.parent.parent / f"{path.name.split('.')[0]}.py" if is_bytecode else path


def test_a_synthesis_reads_nothing_but_the_sources(tmp_path: Path) -> None:
    file = write_settings(
        tmp_path / "settings", {"manifests": str(ROOT / "examples" / "policy")}
    )
    context = {EMBEDDED_CONTEXT: "true", DEPLOYMENT_CONTEXT: str(file), **LEAVE_ASSETS}
    read = {
        path
        for path in opened_by_a_synthesis(tmp_path / "out", context)
        if path.parts[0] not in NOT_SOURCES and (ROOT / path).is_file()
    }
    assert Path("infra/stack.py") in read
    known = (*SOURCES, "examples/policy")
    assert [
        path
        for path in sorted(read)
        if not any(path.is_relative_to(name) for name in known)
    ] == []


def test_the_key_follows_every_source_and_the_settings(repository: Path) -> None:
    keys = {key_of({}, repository), key_of({"stack": "Other"}, repository)}
    for number, path in enumerate(files(repository)):
        path.write_text(f"changed {number}\n")
        keys.add(key_of({}, repository))
    (repository / "infra" / "new.py").write_text("")
    keys.add(key_of({}, repository))
    assert len(keys) == 2 + len(SOURCES) + 1


def test_the_key_follows_the_manifests_that_are_deployed(repository: Path) -> None:
    folder = repository / "policy"
    folder.mkdir()
    (folder / "pool.yaml").write_text("one\n")
    before = key_of({"manifests": "policy"}, repository)
    (folder / "pool.yaml").write_text("two\n")
    assert key_of({"manifests": "policy"}, repository) != before


def test_bytecode_changes_nothing(repository: Path) -> None:
    before = key_of({}, repository)
    (repository / "infra" / "some.pyc").write_bytes(b"bytecode")
    assert key_of({}, repository) == before


def test_what_was_made_is_taken_until_an_asset_of_it_is_gone(tmp_path: Path) -> None:
    settings = {"stack": "Kept"}
    first = Synthesis(settings, tmp_path)
    folder = first.finish()
    again = Synthesis(settings, tmp_path)
    assert again.is_kept
    assert again.finish() == folder
    assert list(tmp_path.iterdir()) == [folder]
    assets = json.loads((folder / "Kept.assets.json").read_text())["files"]
    template = next(
        it["source"]["path"]
        for it in assets.values()
        if it["source"]["path"].endswith(".template.json")
    )
    (folder / template).unlink()
    anew = Synthesis(settings, tmp_path)
    assert not anew.is_kept
    assert (anew.finish() / template).is_file()


def test_a_synthesis_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="retain: must be true or false"):
        Synthesis({"retain": "maybe"}, tmp_path).finish()
    assert list(tmp_path.iterdir()) == []
