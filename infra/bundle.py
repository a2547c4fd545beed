"""What a function is made of: the code asset (``functions/`` and ``shared/``) and the layer of locked dependencies.

Code and ``shared`` are one asset on purpose: messages and rows have one format, so no two functions may ever run
different versions of it. The layer is built without Docker, by uv, from wheels for the target platform.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aws_cdk import aws_lambda as lambda_
from uv import find_uv_bin

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements" / "runtime.txt"
BUILD_FOLDER: Final = ROOT / ".build"
CODE: Final = ("functions", "shared")
KEPT_BUILDS: Final = 4  # of the code: enough for syntheses that run side by side
UNZIPPED_LIMIT_MIB: Final = 250  # Lambda's, for code and all layers together

# What nothing imports at run time.
PRUNED: Final = (
    "bin",
    "**/tests",
    "numpy/**/*.pyi",
    "numpy/**/*.a",
    "numpy/_core/include",
    "highspy/include",
    "highspy/share",
)


@dataclass(frozen=True, slots=True)
class LayerTarget:
    """Where the layer runs. ``platform`` None is this machine."""

    python_version: str
    platform: str | None

    @property
    def runtime(self) -> lambda_.Runtime:
        """Lambda's name for the Python version."""
        return lambda_.Runtime(f"python{self.python_version}", lambda_.RuntimeFamily.PYTHON)

    @property
    def architecture(self) -> lambda_.Architecture:
        """Lambda's name for the processor."""
        machine = self.platform or platform.machine()
        return lambda_.Architecture.ARM_64 if machine.startswith(("aarch64", "arm64")) else lambda_.Architecture.X86_64


# manylinux_2_28 is the newest wheel platform that Amazon Linux 2023 (glibc 2.34) runs without doubt.
LAMBDA: Final = LayerTarget(python_version="3.13", platform="aarch64-manylinux_2_28")
THIS_MACHINE: Final = LayerTarget(python_version=f"{sys.version_info.major}.{sys.version_info.minor}", platform=None)


def code_asset(target: LayerTarget) -> lambda_.AssetCode:
    """Return the asset that holds exactly ``functions/**`` and ``shared/**``, whatever else lies in the repository."""
    sources = {
        path: path.read_bytes() for name in CODE for path in sorted((ROOT / name).rglob("*.*")) if _is_code(path)
    }
    parts = [part for path, text in sources.items() for part in (str(path.relative_to(ROOT)).encode(), text)]
    key = _key([Path(__file__).read_bytes(), target.python_version.encode(), *parts])

    def fill(folder: Path) -> None:
        for path, text in sources.items():
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
        _compile(target, folder, "/var/task")

    folder = _made_once(f"code-{key[:16]}", fill)
    for outdated in sorted(BUILD_FOLDER.glob("code-*"), key=lambda it: it.stat().st_mtime)[:-KEPT_BUILDS]:
        shutil.rmtree(outdated, ignore_errors=True)  # another process may do the same
    return lambda_.Code.from_asset(str(folder), asset_hash=key)


def _is_code(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")


def layer_asset(target: LayerTarget) -> lambda_.AssetCode:
    """Return the layer, built on first use and kept until the lock, the target or this recipe changes."""
    recipe = [LOCK.read_bytes(), Path(__file__).read_bytes(), repr(target).encode()]
    if target.platform is None:
        recipe.append(f"{sys.platform} {platform.machine()}".encode())
    key = _key(recipe)
    folder = _made_once(f"layer-{key[:16]}", lambda folder: _build_layer(target, folder))
    # The key stands for the content; hashing a hundred megabytes at every synthesis would say nothing more.
    return lambda_.Code.from_asset(str(folder), asset_hash=key)


def _key(recipe: Sequence[bytes]) -> str:
    return hashlib.sha256(b"\0".join(recipe)).hexdigest()


def _made_once(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the build of this name; made beside it and renamed: one that breaks off leaves nothing half done."""
    folder = BUILD_FOLDER / name
    if not folder.is_dir():
        BUILD_FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD_FOLDER, prefix="in-progress-") as temporary:
            unfinished = Path(temporary) / name
            fill(unfinished)
            try:
                unfinished.rename(folder)
            except OSError:
                if not folder.is_dir():  # not another process that was faster
                    raise
    return folder


def _build_layer(target: LayerTarget, folder: Path) -> None:
    _say(f"building for Python {target.python_version} on {target.platform or 'this machine'}")
    packages = folder / "python"
    _install(target, packages)
    for pattern in PRUNED:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not _compile(target, packages, "/opt/python"):
        _say(f"no Python {target.python_version} on this machine: no bytecode, so cold starts take longer")
    size_mib = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 2**20
    _say(f"{size_mib:.0f} MiB unzipped, of {UNZIPPED_LIMIT_MIB} that Lambda allows")
    if size_mib > UNZIPPED_LIMIT_MIB:
        message = "the layer is larger than Lambda allows"
        raise RuntimeError(message)


def _install(target: LayerTarget, packages: Path) -> None:
    wheels = ["--python-version", target.python_version]
    if target.platform is not None:
        wheels += ["--python-platform", target.platform]
    subprocess.run(
        [
            *(find_uv_bin(), "pip", "install", "--quiet", "--link-mode", "copy", "--python", sys.executable),
            *("--target", str(packages), *wheels, "--only-binary", ":all:", "--require-hashes"),
            *("--requirement", str(LOCK)),
        ],
        check=True,
    )


def _compile(target: LayerTarget, folder: Path, where: str) -> bool:
    """Compile to bytecode, which halves a cold start: Lambda's folders are read-only, so it never could by itself.

    Bytecode belongs to one minor version of Python; False when this machine has none of it. Invalidation is by nothing
    (unchecked hash), because a zip changes the modification times that Python would else compare.
    """
    interpreter = _interpreter(target.python_version)
    if interpreter is None:
        return False
    subprocess.run(
        [
            *(interpreter, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(folder), "-p", where),  # tracebacks name the files where Lambda has them
            str(folder),
        ],
        check=True,
    )
    return True


def _interpreter(version: str) -> str | None:
    """Find a Python of exactly this minor version: this one, else one on the path that really starts."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    candidate = shutil.which(f"python{version}")
    if candidate is None:
        return None
    answer = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False)
    return candidate if answer.stdout.startswith(f"Python {version}.") else None


def _say(text: str) -> None:
    print(f"layer: {text}", file=sys.stderr, flush=True)
