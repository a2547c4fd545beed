"""What is uploaded is compiled for the Python that runs it, and is known by its content."""

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest

from infra.assets.bundle import LAMBDA, content_hash
from infra.assets.bytecode import BytecodeError, compile_for, compile_here
from reservoir.names import DEFAULT_STACK
from tests.infra.test_assets import asset_folder, functions_of

MAGIC_OF_3_13 = (3571).to_bytes(2, "little") + b"\r\n"  # the same for all of 3.13


def magic_numbers(folder: Path) -> set[bytes]:
    return {path.read_bytes()[:4] for path in folder.rglob("*.pyc")}


def assets(assembly: Path) -> list[Path]:
    by_handler, layer = functions_of(assembly)
    keys = {properties["Code"]["S3Key"] for properties in by_handler.values()} | {
        layer["Content"]["S3Key"]
    }
    return [asset_folder(assembly, key) for key in sorted(keys)]


def test_an_accounts_assets_are_compiled_for_its_python_whatever_this_machine_has(
    assembly: Path,
) -> None:
    assert LAMBDA.python_version == "3.13"
    for folder in assets(assembly):
        assert magic_numbers(folder) == {MAGIC_OF_3_13}
        sources = list(folder.rglob("*.py"))
        assert len(list(folder.rglob("*.pyc"))) == len(sources) > 50


def test_assets_for_this_machine_are_compiled_for_its_python(
    embedded_assembly: Path,
) -> None:
    for folder in assets(embedded_assembly):
        assert magic_numbers(folder) == {importlib.util.MAGIC_NUMBER}


def test_an_asset_is_known_by_its_content(assembly: Path, embedded_assembly: Path) -> None:
    for each in (assembly, embedded_assembly):
        files = json.loads((each / f"{DEFAULT_STACK}.assets.json").read_text())["files"]
        hashes = {each / file["source"]["path"]: name for name, file in files.items()}
        for folder in assets(each):
            # CDK hashes what it is told is the asset's hash once more.
            assert (
                hashes[folder] == hashlib.sha256(content_hash(folder).encode()).hexdigest()
            )


def test_other_bytes_or_other_names_have_another_hash(tmp_path: Path) -> None:
    file = tmp_path / "package" / "module.pyc"
    file.parent.mkdir()
    file.write_bytes(b"one")
    hashes = [content_hash(tmp_path)]
    file.write_bytes(b"two")
    hashes.append(content_hash(tmp_path))
    file.rename(tmp_path / "module.pyc")
    hashes.append(content_hash(tmp_path))
    (tmp_path / "module.pyc").unlink()
    hashes.append(content_hash(tmp_path))
    assert len(set(hashes)) == 4


def test_what_was_compiled_here_and_what_was_compiled_for_another_python_differ(
    tmp_path: Path,
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("ANSWER = 42\n")
    compile_here(tmp_path / "here", "/var/task")
    compile_for("3.13", tmp_path / "there", "/var/task")
    assert magic_numbers(tmp_path / "there") == {MAGIC_OF_3_13}
    assert content_hash(tmp_path / "here") != content_hash(tmp_path / "there")


def test_without_the_compiler_nothing_is_built_and_the_way_to_get_it_is_said(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        BytecodeError,
        match=r"compiler for Python 3\.13 is not installed in .*`make synth` installs",
    ):
        compile_for("3.13", tmp_path, "/var/task", pyodide=tmp_path / "nowhere")


def test_a_compiler_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BytecodeError,
        match=r"Pyodide is Python 3\.13; package\.json must name .* Python 3\.12",
    ):
        compile_for("3.12", tmp_path, "/var/task")


def test_a_source_that_does_not_compile_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (:\n")
    with pytest.raises(BytecodeError, match=r"broken\.py"):
        compile_for("3.13", tmp_path, "/var/task")
