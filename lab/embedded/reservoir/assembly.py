"""The assembly that is deployed to an embedded AWS: ``app.py`` synthesised, or taken from the synthesis before.

A synthesis takes ten seconds of processor time, nearly all of it the start of the CDK's runtime, and depends on nothing
but files of this repository, the deployment's settings and the interpreter. So what it made is kept in ``.build`` under
the hash of those, and made again when one of them changes.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from infra.naming import DEPLOYMENT_CONTEXT, EMBEDDED_CONTEXT
from lab.embedded.reservoir.network import NODE_ROLE
from reservoir.names import DEFAULT_STACK

ROOT: Final = Path(__file__).resolve().parents[3]
Settings = Mapping[str, object]  # as in a settings file
# Nothing outlives the embedded AWS, and examples/demo names the role.
EPHEMERAL: Final = {
    "stack": DEFAULT_STACK,
    "retain": False,
    "terminationProtection": False,
    "instanceRole": NODE_ROLE,
}
# Assets are uploaded from where they were built: copying the thousands of files of a layer takes longer than all else
# in a synthesis.
LEAVE_ASSETS: Final = {"aws:cdk:disable-asset-staging": True}
KEPT: Final = ROOT / ".build"
KEPT_ASSEMBLIES: Final = 8
# What app.py reads of this repository; a test watches a synthesis and sees that there is nothing else.
SOURCES: Final = (
    *("app.py", "cdk.json", "infra", "functions", "shared"),
    *("requirements/dev.txt", "requirements/runtime.txt"),
)


class Synthesis:
    """An assembly that is being made, or one that was made from the same sources before.

    Parameters
    ----------
    settings
        What its settings file says beside what suits an embedded run, e.g. ``{"spotPoolSharePercent": 50}``.
    kept
        The folder in which assemblies are kept.
    root
        The repository, or a copy of another release's.
    """

    def __init__(self, settings: Settings, kept: Path = KEPT, root: Path = ROOT) -> None:
        self._folder = kept / f"assembly-{key_of(settings, root)[:16]}"
        self._unfinished: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        if not _is_whole(self._folder):
            kept.mkdir(exist_ok=True)
            self._unfinished = Path(tempfile.mkdtemp(dir=kept, prefix="in-progress-"))
            self._process = _start(self._unfinished, settings, root)

    @property
    def is_kept(self) -> bool:
        """Whether nothing has to be made."""
        return self._process is None

    def finish(self) -> Path:
        """Wait until the assembly is whole; return its folder.

        Raises
        ------
        RuntimeError
            With what ``app.py`` wrote, when it failed.
        """
        if self._process is not None and self._unfinished is not None:
            try:
                _require_success(self._process)
                _keep(self._unfinished, self._folder)
            finally:
                shutil.rmtree(self._unfinished, ignore_errors=True)
            self._process = None
        return self._folder

    def abandon(self) -> None:
        """End a synthesis that nobody waits for any more."""
        if self._process is not None and self._unfinished is not None:
            self._process.kill()
            self._process.communicate()
            shutil.rmtree(self._unfinished, ignore_errors=True)


def write_settings(folder: Path, settings: Settings) -> Path:
    """Write the settings file of a deployment that lives as long as its embedded AWS."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "embedded.yaml"
    path.write_text(json.dumps({**EPHEMERAL, **settings}), encoding="utf-8")  # JSON is YAML
    return path


def key_of(settings: Settings, root: Path = ROOT) -> str:
    """Return the hash of everything that an assembly of the repository at ``root`` is made from."""
    interpreter = (sys.version, sys.platform, platform.machine(), sys.prefix)
    found = hashlib.sha256(
        json.dumps([interpreter, {**EPHEMERAL, **settings}], sort_keys=True).encode()
    )
    for path in _sources(settings, root):
        content = path.read_bytes()
        found.update(f"\0{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _sources(settings: Settings, root: Path) -> Iterator[Path]:
    folders = [root / name for name in SOURCES]
    if "manifests" in settings:
        folders.append(root / str(settings["manifests"]))
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path


def _is_whole(folder: Path) -> bool:
    """Return whether an assembly is there with the assets that it names; builds that are long unused are deleted."""
    if not (folder / "manifest.json").is_file():
        return False
    for manifest_path in folder.glob("*.assets.json"):
        for asset in json.loads(manifest_path.read_text())["files"].values():
            if not (folder / asset["source"]["path"]).exists():
                return False
    return True


def _keep(unfinished: Path, folder: Path) -> None:
    if folder.is_dir() and not _is_whole(folder):  # an asset of it was deleted
        shutil.rmtree(folder, ignore_errors=True)
    try:
        unfinished.rename(folder)
    except OSError:
        if not _is_whole(folder):  # not another process that was faster
            raise
    for outdated in sorted(
        folder.parent.glob("assembly-*"), key=lambda it: it.stat().st_mtime
    )[:-KEPT_ASSEMBLIES]:
        shutil.rmtree(outdated, ignore_errors=True)  # another process may do the same


def _require_success(synthesis: "subprocess.Popen[str]") -> None:
    log, _ = synthesis.communicate()
    if synthesis.returncode:
        message = f"app.py failed:\n{log}"
        raise RuntimeError(message)


def _start(folder: Path, settings: Settings, root: Path) -> "subprocess.Popen[str]":
    """Start ``app.py``; a process of its own, because the CDK's runtime is slow to start and not needed afterwards."""
    path = write_settings(folder, settings)
    context = {DEPLOYMENT_CONTEXT: str(path), EMBEDDED_CONTEXT: "true", **LEAVE_ASSETS}
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    return subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=root,
        # the validator takes ten seconds; a test runs it
        env={**environment, "CDK_VALIDATION": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
