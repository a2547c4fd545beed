"""What a function is made of: the code asset and the layer of locked dependencies.

All functions and the product are one asset on purpose: messages and rows have one format, so no two functions may ever
run different versions of it. The layer is built without Docker, by uv, from wheels for the target platform.

A build is kept under the name of its recipe, and is known to CloudFormation by its content: two assets that differ in
a byte never share a hash, however they came about.
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

from infra.assets import aws_models, bytecode

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements" / "runtime.txt"
NODE_LOCK: Final = ROOT / "package-lock.json"  # locks the compiler of bytecode
BUILD_FOLDER: Final = ROOT / ".build"
PRODUCT: Final = ROOT / "shared" / "reservoir"
# What runs on operators' machines, in workload systems and on nodes.
NOT_IN_FUNCTIONS: Final = tuple(PRODUCT / room for room in ("cli", "client", "agent"))
KEPT_BUILDS: Final = 4  # of the code: enough for syntheses that run side by side
UNZIPPED_LIMIT_MIB: Final = 250  # Lambda's, for code and all layers together

# A build's folder: what is uploaded, and its hash.
_CONTENT: Final = "content"
_HASH: Final = "sha256"
# The modules, and what stands beside them, that decide what a build is.
_MAKERS: Final = frozenset({"bundle", "aws_models", "bytecode"})

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
        return (
            lambda_.Architecture.ARM_64
            if machine.startswith(("aarch64", "arm64"))
            else lambda_.Architecture.X86_64
        )


# manylinux_2_28 is the newest wheel platform that Amazon Linux 2023 (glibc 2.34) runs without doubt.
LAMBDA: Final = LayerTarget(python_version="3.13", platform="aarch64-manylinux_2_28")
THIS_MACHINE: Final = LayerTarget(
    python_version=f"{sys.version_info.major}.{sys.version_info.minor}", platform=None
)


def code_asset(target: LayerTarget) -> lambda_.AssetCode:
    """Return the asset that holds the packages ``functions`` and ``reservoir``, the latter without its programs."""
    sources = code()
    parts = [part for path, text in sources.items() for part in (str(path).encode(), text)]
    key = _key([*_recipe(target), *parts])

    def fill(folder: Path) -> None:
        for path, text in sources.items():
            copy = folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
        _compile(target, folder, "/var/task")

    folder = _made_once(f"code-{key[:16]}", fill)
    for outdated in sorted(BUILD_FOLDER.glob("code-*"), key=lambda it: it.stat().st_mtime)[
        :-KEPT_BUILDS
    ]:
        shutil.rmtree(outdated, ignore_errors=True)  # another process may do the same
    return _asset(folder)


def code() -> dict[Path, bytes]:
    """Return what functions are made of: the text of each file by its path in the asset."""
    found: dict[Path, bytes] = {}
    for package in (ROOT / "functions", PRODUCT):
        for path in sorted(package.rglob("*.*")):
            if _is_code(path):
                found[path.relative_to(package.parent)] = path.read_bytes()
    return found


def _is_code(path: Path) -> bool:
    if any(path.is_relative_to(room) for room in NOT_IN_FUNCTIONS):
        return False
    return path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")


def layer_asset(target: LayerTarget) -> lambda_.AssetCode:
    """Return the layer, built on first use and kept until the lock, the target or this recipe changes."""
    key = _key([LOCK.read_bytes(), *_recipe(target)])
    return _asset(
        _made_once(f"layer-{key[:16]}", lambda folder: _build_layer(target, folder))
    )


def _asset(build: Path) -> lambda_.AssetCode:
    return lambda_.Code.from_asset(
        str(build / _CONTENT), asset_hash=(build / _HASH).read_text()
    )


def _recipe(target: LayerTarget) -> list[bytes]:
    """Return what every build depends on beside what goes into it."""
    makers = [
        path.read_bytes()
        for path in sorted(Path(__file__).parent.glob("*"))
        if path.stem in _MAKERS
    ]
    if target.platform is None:
        return [
            *makers,
            f"{target} {sys.platform} {platform.machine()} {sys.version}".encode(),
        ]
    return [*makers, repr(target).encode(), NODE_LOCK.read_bytes()]


def _key(recipe: Sequence[bytes]) -> str:
    return hashlib.sha256(b"\0".join(recipe)).hexdigest()


def _made_once(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the build of this name; made beside it and renamed: one that breaks off leaves nothing half done."""
    build = BUILD_FOLDER / name
    if not build.is_dir():
        BUILD_FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=BUILD_FOLDER, prefix="in-progress-"
        ) as temporary:
            unfinished = Path(temporary) / name
            (unfinished / _CONTENT).mkdir(parents=True)
            fill(unfinished / _CONTENT)
            (unfinished / _HASH).write_text(content_hash(unfinished / _CONTENT))
            try:
                unfinished.rename(build)
            except OSError:
                if not build.is_dir():  # not another process that was faster
                    raise
    return build


def content_hash(folder: Path) -> str:
    """Return a hash of the names and the bytes of all files below ``folder``."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(
            str(path.relative_to(folder)).encode()
            + b"\0"
            + hashlib.sha256(path.read_bytes()).digest()
        )
    return total.hexdigest()


def _build_layer(target: LayerTarget, folder: Path) -> None:
    _say(
        f"building for Python {target.python_version} on {target.platform or 'this machine'}"
    )
    packages = folder / "python"
    _install(target, packages)
    for pattern in PRUNED:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    aws_models.trim(packages / "botocore" / "data")
    _compile(target, packages, "/opt/python")
    size_mib = (
        sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 2**20
    )
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
            *(
                find_uv_bin(),
                "pip",
                "install",
                "--quiet",
                "--link-mode",
                "copy",
                "--python",
                sys.executable,
            ),
            *(
                "--target",
                str(packages),
                *wheels,
                "--only-binary",
                ":all:",
                "--require-hashes",
            ),
            *("--requirement", str(LOCK)),
        ],
        check=True,
    )


def _compile(target: LayerTarget, folder: Path, where: str) -> None:
    if target.platform is None:
        bytecode.compile_here(folder, where)
    else:
        bytecode.compile_for(target.python_version, folder, where)


def _say(text: str) -> None:
    print(f"layer: {text}", file=sys.stderr, flush=True)
