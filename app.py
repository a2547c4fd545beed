"""Entry point of the CDK: ``python app.py`` and the CDK command line both end here."""

import os
import sys
from pathlib import Path

from infra.app import build_app
from reservoir.manifests.parsing.problems import ManifestError

try:
    build_app(outdir=Path(os.environ.get("CDK_OUTDIR", "cdk.out"))).synth()
except ManifestError as error:
    sys.exit(str(error))
