"""The CDK app, the same however it is started: ``python app.py``, the CDK command line, a test."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App

from infra.config import StackConfig
from infra.stack import ReservoirStack

ROOT = Path(__file__).resolve().parent.parent


def build_app(*, outdir: Path, context: Mapping[str, Any] | None = None) -> App:
    """Compose the app; ``synth()`` it to write templates and assets to ``outdir``.

    The context is cdk.json's, below ``context``, below what the CDK command line hands over. It is read here because
    only the command line would read cdk.json by itself, and feature flags must not depend on who starts the app.
    """
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(outdir=str(outdir), context={**flags, **(context or {})}, analytics_reporting=False)
    ReservoirStack(app, StackConfig.from_context(app.node))
    return app
