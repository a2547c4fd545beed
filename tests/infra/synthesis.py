"""Synthesis for tests that look at templates only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aws_cdk import App

from infra.app import build_app

# Assets stay where they are: copying the thousands of files of a layer takes longer than all else in a synthesis.
LEAVE_ASSETS: Final = {"aws:cdk:disable-asset-staging": True}


def template_app(folder: Path, context: Mapping[str, Any] | None = None) -> App:
    """Return the app whose ``synth()`` writes templates as ever, and no copies of the assets that they name."""
    return build_app(outdir=folder, context={**LEAVE_ASSETS, **(context or {})})
