"""The embedded AWS as a fixture; a test package that uses it imports it in its conftest, and gets one of its own."""

from collections.abc import Iterator

import pytest

from lab.embedded.client import EmbeddedAws


@pytest.fixture(scope="session")
def embedded_aws() -> Iterator[EmbeddedAws]:
    """One embedded AWS for all tests of a package; what it wrote to stderr is shown when a test fails."""
    with EmbeddedAws() as aws:
        yield aws
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure
