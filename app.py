"""Entry point of the CDK: ``python app.py`` and the CDK command line both end here."""

import os
from pathlib import Path

from infra.app import build_app

build_app(outdir=Path(os.environ.get("CDK_OUTDIR", "cdk.out"))).synth()
