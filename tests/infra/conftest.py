"""One synthesis for all template tests, also when several processes share them: the stack as an account gets it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reservoir.names import DEFAULT_STACK
from tests.infra.synthesis import template_app
from tests.once import MakeOnce, make_once

__all__ = ["make_once"]


@pytest.fixture(scope="session")
def assembly(make_once: MakeOnce) -> Path:
    """Return the folder that ``make synth`` would write, with the assets where they were built."""
    return make_once("cdk.out", lambda folder: template_app(folder).synth())


@pytest.fixture(scope="session")
def embedded_assembly(make_once: MakeOnce) -> Path:
    """Return the assembly whose assets are built for the Python that runs these tests."""
    return make_once(
        "embedded-cdk.out", lambda folder: template_app(folder, embedded=True).synth()
    )


@pytest.fixture(scope="session")
def template(assembly: Path) -> Mapping[str, Any]:
    """Return the template of the default stack."""
    result: Mapping[str, Any] = json.loads(
        (assembly / f"{DEFAULT_STACK}.template.json").read_text()
    )
    return result


@pytest.fixture(scope="session")
def resources(template: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return its resources by logical id."""
    result: Mapping[str, Mapping[str, Any]] = template["Resources"]
    return result
