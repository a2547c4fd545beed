"""``make play``: the printed settings work, Ctrl-C ends it, and with a folder the next start goes on."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from lab.embedded.keep.folder import read_index
from lab.embedded.reservoir import ROOT
from tests.embedded.conftest import until

pytestmark = pytest.mark.embedded
LIMIT_S = 600


@dataclass
class Terminal:
    """Another terminal, in which what ``make play`` printed was pasted."""

    guide: str
    variables: dict[str, str]

    @classmethod
    def of(cls, guide: str) -> "Terminal":
        return cls(
            guide, dict(re.findall(r"^  export (\w+)=(\S+)$", guide, flags=re.MULTILINE))
        )

    def run(self, *arguments: str, given: str | None = None) -> str:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, *arguments],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", **self.variables},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def send(self, name: str) -> None:
        """Do what the guide says of the first workload, for one of this name."""
        (file,) = re.findall(
            r"^  reservoir submit -f (\S+) --wait$", self.guide, flags=re.MULTILINE
        )
        manifest = (ROOT / file).read_text(encoding="utf-8").replace("first", name)
        self.run(
            "-m",
            "reservoir",
            "submit",
            "-f",
            "-",
            "--timeout",
            f"{LIMIT_S}s",
            given=manifest,
        )

    def explained(self, name: str) -> str:
        """Let a minute pass, as the guide says, in which a workload finds its place; return what is said of it."""
        (module,) = re.findall(r"^  python -m (\S+) later 10m$", self.guide, flags=re.M)
        self.run("-m", module, "later", "1m")
        return until(lambda: self._placed(name), limit_s=LIMIT_S)  # type: ignore[no-any-return]  # a condition's value

    def _placed(self, name: str) -> str | None:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "reservoir", "explain", "workload", f"trying/{name}"],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", **self.variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if "8 placed, 0 waiting" in done.stdout else None


@contextmanager
def playing(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    process = subprocess.Popen(  # noqa: S603 - our own program
        # As a script starts a program in the background: it inherits that SIGINT is ignored.
        [
            "/bin/sh",
            "-c",
            'trap "" INT; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "lab.embedded.reservoir",
            *arguments,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate()


def read_until(output: IO[str], text: str) -> str:
    read = ""
    for line in output:
        read += line
        if text in line:
            return read
    raise AssertionError(f"no {text!r} in:\n{read}")


def interrupt(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=LIMIT_S)
    return rest


def claims(explained: str) -> set[str]:
    return set(re.findall(r"nc-\w+", explained))


def test_a_second_start_goes_on_where_the_first_one_ended(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with playing("--keep", str(folder)) as (process, output):
        terminal = Terminal.of(read_until(output, "later 10m"))
        assert "gpu" in terminal.run("-m", "reservoir", "get")
        terminal.send("first")
        before = terminal.explained("first")
        ended = interrupt(process)
        assert process.returncode == 0, ended
        assert "keeping everything in" in ended
    with playing("--keep", str(folder)) as (process, output):
        terminal = Terminal.of(read_until(output, "later 10m"))
        assert claims(terminal.explained("first")) == claims(before)
        terminal.send("second")
        after = terminal.explained("second")
        assert not claims(after) & claims(before)
        assert "reserved" in terminal.run(
            "-m", "reservoir", "explain", "node", min(claims(after))
        )
        ended = interrupt(process)
        assert process.returncode == 0, ended


def test_a_ctrl_c_before_it_runs_keeps_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with playing("--keep", str(folder)) as (process, output):
        read_until(output, "deploying")
        ended = interrupt(process)
    assert process.returncode == 130
    assert "nothing was kept" in ended
    assert "Traceback" not in ended
    assert read_index(folder) is None


def test_a_folder_that_cannot_be_gone_on_with_is_told_before_anything_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with playing("--keep", str(tmp_path)) as (process, output):
        assert "holds something else" in output.read()
        assert process.wait(timeout=LIMIT_S) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
