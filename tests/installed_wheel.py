"""The wheel, built and installed into an environment of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def done(
    *command: str | Path, cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own tools
        [str(word) for word in command],
        cwd=cwd,
        env={"PATH": str(BIN), "HOME": str(cwd), "UV_NO_CACHE": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def built(folder: Path) -> Path:
    """Build it into a folder, and return its file."""
    build = done(
        "uv",
        "build",
        "--wheel",
        "--no-build-isolation",
        "--out-dir",
        folder,
        VIRTUAL_ENV=str(BIN.parent),
    )
    assert build.returncode == 0, build.stderr
    (file,) = folder.glob("*.whl")
    return file


def installed(environment: Path, wheel: Path) -> Path:
    """Install into a new environment that sees nothing of this repository but its packages; return its ``bin``."""
    made = done(sys.executable, "-m", "venv", "--without-pip", environment)
    assert made.returncode == 0, made.stderr
    python = environment / "bin" / "python"
    added = done(
        "uv", "pip", "install", "--offline", "--no-deps", "--python", python, wheel
    )
    assert added.returncode == 0, added.stderr
    (own,) = environment.glob("lib/python*/site-packages")
    (others,) = BIN.parent.glob("lib/python*/site-packages")
    (own / "others.pth").write_text(f"{others}\n")
    return environment / "bin"
