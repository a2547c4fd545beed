"""A folder has one whole state or the one before it, whatever is killed when."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.embedded.keep.folder import (
    INDEX,
    LARGE_BYTES,
    KeepFolder,
    KeptStateError,
    read_index,
)
from tests.test_tidy import ROOT

OLD, NEW = "what was kept before", "what is kept now"
LARGE = b"x" * LARGE_BYTES
# Saves a state and dies at the n-th step that changes anything in the folder; ends well when there are fewer.
DYING = """
import os, sys
from pathlib import Path
from lab.embedded.keep.folder import LARGE_BYTES, KeepFolder
folder, last, seen = Path(sys.argv[1]), int(sys.argv[2]), [0]
def watch(event, arguments):
    if event in ("open", "os.rename", "os.remove") and str(arguments[0]).startswith(str(folder)):
        seen[0] += 1
        if seen[0] == last:
            os._exit(9)
sys.addaudithook(watch)
KeepFolder(folder, {}).save({"said": sys.argv[3], "large": b"y" * LARGE_BYTES}, port=1, now_us=2)
"""


def save(folder: Path, said: str, large: bytes = LARGE) -> None:
    KeepFolder(folder, {}).save({"said": said, "large": large}, port=1, now_us=2)


def load(folder: Path) -> Any:
    return KeepFolder(folder, {}).load(port=1)


def blobs(folder: Path) -> Iterator[Path]:
    return (folder / "blobs").iterdir()


def save_and_die(folder: Path, at_step: int) -> int:
    command = [sys.executable, "-c", DYING, str(folder), str(at_step), NEW]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - our own program


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    save(tmp_path / "new", NEW)
    assert load(tmp_path / "new") == {"said": NEW, "large": LARGE}
    index = read_index(tmp_path / "new")
    assert index is not None
    assert (index["port"], index["now_us"]) == (1, 2)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0  # for its owner alone


def test_wherever_a_save_is_killed_one_whole_state_is_there(tmp_path: Path) -> None:
    seen, status, step = [], -1, 0
    while status != 0:
        step += 1
        folder = tmp_path / str(step)
        save(folder, OLD)
        status = save_and_die(folder, step)
        found = load(folder)
        assert found in (
            {"said": OLD, "large": LARGE},
            {"said": NEW, "large": b"y" * LARGE_BYTES},
        )
        seen.append(found["said"])
        save(folder, "and it can be kept in again")
        assert load(folder)["said"] == "and it can be kept in again"
    assert len(seen) > 8
    # the old one, and from one step on the new one
    assert seen == sorted(seen, key=(OLD, NEW).index)


def test_a_first_save_that_is_killed_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert save_and_die(folder, 4) == 9
    assert folder.is_dir()
    assert read_index(folder) is None
    save(folder, NEW)
    assert load(folder)["said"] == NEW


def test_what_is_large_is_written_once_and_deleted_when_nobody_needs_it(
    tmp_path: Path,
) -> None:
    save(tmp_path, OLD)
    (first,) = blobs(tmp_path)
    written = first.stat().st_mtime_ns
    save(tmp_path, NEW)
    assert [path.stat().st_mtime_ns for path in blobs(tmp_path)] == [written]
    save(tmp_path, NEW, b"small")
    assert list(blobs(tmp_path)) == []
    assert len(list(tmp_path.glob("state-*"))) == 1


def test_what_every_start_makes_anew_is_referred_to(tmp_path: Path) -> None:
    clock, other = object(), object()
    KeepFolder(tmp_path, {"clock": clock}).save([clock, clock], port=1, now_us=2)
    assert KeepFolder(tmp_path, {"clock": other}).load(port=1) == [other, other]


def test_a_state_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, OLD)
    with pytest.raises(TypeError, match="pickle"):
        KeepFolder(tmp_path, {}).save(
            {"large": b"z" * LARGE_BYTES, "stream": sys.__stdout__}, port=1, now_us=2
        )
    assert load(tmp_path)["said"] == OLD


def test_another_version_is_refused_and_says_so(tmp_path: Path) -> None:
    save(tmp_path, OLD)
    index = json.loads((tmp_path / INDEX).read_text())
    (tmp_path / INDEX).write_text(json.dumps({**index, "version": "another"}))
    for read in (read_index, load):
        with pytest.raises(
            KeptStateError, match=r"kept by another version .* give another folder"
        ):
            read(tmp_path)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    save(tmp_path, OLD)
    with pytest.raises(KeptStateError, match="belongs to somebody else"):
        read_index(tmp_path, user_id=os.getuid() + 1)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(KeptStateError, match="holds something else"):
        read_index(tmp_path)


def test_a_folder_that_lost_a_part_is_refused(tmp_path: Path) -> None:
    save(tmp_path, OLD)
    for path in blobs(tmp_path):
        path.unlink()
    with pytest.raises(KeptStateError, match="not whole"):
        load(tmp_path)


def test_nothing_is_kept_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert read_index(tmp_path / "nowhere") is None
    with pytest.raises(KeptStateError, match="nothing is kept"):
        load(tmp_path / "nowhere")
