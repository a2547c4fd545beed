"""The CDK app, the same however it is started: ``python app.py``, the CDK command line, a test."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly

from infra.naming import (
    CREATING_CONTEXT,
    DEPLOYMENT_CONTEXT,
    EMBEDDED_CONTEXT,
    OLDER_INDEXES_CONTEXT,
)
from infra.operations.quotas import Place, Quota, Use, exceeded
from infra.stack import ReservoirStack
from reservoir.deployment.deployment import FOLDER, find, read
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.parsing.problems import ManifestError, Problem

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_REGION: Final = "us-east-1"


def build_app(
    *, outdir: Path, context: Mapping[str, Any] | None = None, is_validated: bool = True
) -> App:
    """Compose the app; ``synth()`` it to write templates and assets to ``outdir``.

    The context is cdk.json's, below ``context``, below what the CDK command line hands over. It is read here because
    only the command line would read cdk.json by itself, and feature flags must not depend on who starts the app.

    Loading the CDK's validator of templates takes longer than all else; without ``is_validated`` nothing refuses a
    template that CloudFormation would refuse.

    Raises
    ------
    ManifestError
        The settings file is missing or wrong.
    """
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(
        outdir=str(outdir),
        context={**flags, **(context or {})},
        analytics_reporting=False,
        builtin_cloud_formation_validation=is_validated,
    )
    _refuse_choices(app)
    deployment = read(
        find(app.node.try_get_context(DEPLOYMENT_CONTEXT) or None, ROOT / FOLDER)
    )
    ReservoirStack(
        app,
        deployment,
        embedded=_is_set(app, EMBEDDED_CONTEXT),
        is_new=_is_set(app, CREATING_CONTEXT),
        with_older_indexes=_is_set(app, OLDER_INDEXES_CONTEXT),
    )
    return app


def refuse_too_much(assembly: CloudAssembly, region: str | None) -> None:
    """Refuse templates with more than AWS allows: long names and many settings can come to that together.

    Raises
    ------
    ManifestError
        AWS would refuse what is named, in the region or else in us-east-1; nothing was touched.
    """
    found: dict[Quota, Use] = {}
    for stack in assembly.stacks:
        place = Place(stack.stack_name, region or DEFAULT_REGION)
        for use in sorted(exceeded(stack.template, place), key=lambda use: use.used):
            found[use.quota] = use  # the largest
    advice = (
        "shorten names in the settings (of tables, roles, topics), or choose fewer options"
    )
    if found:
        raise ManifestError(
            [Problem("stack", "quota", f"{use}: {advice}") for use in found.values()]
        )


def _is_set(app: App, name: str) -> bool:
    # the command line hands over text
    return app.node.try_get_context(name) in (True, "true")


def _refuse_choices(app: App) -> None:
    """Refuse a setting that is given as context: it would hold for this once, and the next deployment undo it."""
    message = "is a setting of the deployment, not context: write it into its settings file"
    given = [
        name
        for name in DeploymentSettings.wire_fields()
        if app.node.try_get_context(name) is not None
    ]
    if given:
        raise ManifestError([Problem(name, "context", message) for name in given])
