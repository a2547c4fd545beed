"""Starts the steps with whichever release's code is on the path: modules that moved since are found where they were."""

import importlib
import runpy
import sys
from pathlib import Path
from typing import Final

# Where the previous release has what the steps use. An entry goes when that release has it at its place of today.
MOVED: Final = {
    "shared.adapters.dynamodb.node_claims": "shared.adapters.dynamodb_node_claims",
    "shared.adapters.dynamodb.reservations": "shared.adapters.dynamodb_reservations",
    "shared.adapters.dynamodb.workloads": "shared.adapters.dynamodb_workloads",
    "shared.core.capacity.ledger": "shared.core.ledger",
    "shared.core.capacity.boot_failure": "shared.core.boot_failure",
    "shared.core.capacity.shortage": "shared.core.shortage",
    "shared.core.launching.launch_outcome": "shared.core.launch_outcome",
    "shared.core.model.capacity_reservation": "shared.core.capacity_reservation",
    "shared.core.model.node_claim": "shared.core.node_claim",
    "shared.core.model.snapshot": "shared.core.snapshot",
}

for today, before in MOVED.items():
    try:
        importlib.import_module(today)
    except ModuleNotFoundError:
        sys.modules[today] = importlib.import_module(before)

runpy.run_path(str(Path(__file__).with_name("step.py")), run_name="__main__")
