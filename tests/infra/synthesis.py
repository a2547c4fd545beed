"""Synthesis for tests, which leave assets where they were built."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App

from embedded.reservoir import LEAVE_ASSETS
from infra.app import build_app


def template_app(folder: Path, context: Mapping[str, Any] | None = None) -> App:
    """Return the app whose ``synth()`` writes everything as ever but the copies of assets."""
    return build_app(outdir=folder, context={**LEAVE_ASSETS, **(context or {})})
