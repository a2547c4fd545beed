"""Synthesis for tests, which leave assets where they were built."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aws_cdk import App

from infra.app import build_app
from infra.naming import DEPLOYMENT_CONTEXT
from lab.embedded.reservoir import LEAVE_ASSETS
from reservoir.names import DEFAULT_STACK

NAME: Final = "production"  # of the deployment whose template is tested


def template_app(
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    is_validated: bool = False,
    **context: Any,
) -> App:
    """Return the app whose ``synth()`` writes everything as ever but the copies of assets."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}.yaml"
    path.write_text(json.dumps({"stack": DEFAULT_STACK, **(settings or {})}))
    given = {**LEAVE_ASSETS, DEPLOYMENT_CONTEXT: str(path), **context}
    return build_app(outdir=folder, context=given, is_validated=is_validated)
