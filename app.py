"""Entry point of the CDK: ``python app.py`` and the CDK command line both end here."""

import os
import sys
from pathlib import Path

from infra.app import build_app, refuse_too_much
from reservoir.manifests.parsing.problems import ManifestError

try:
    assembly = build_app(outdir=Path(os.environ.get("CDK_OUTDIR", "cdk.out"))).synth()
    refuse_too_much(assembly, os.environ.get("CDK_DEFAULT_REGION"))
except ManifestError as error:
    sys.exit(str(error))
