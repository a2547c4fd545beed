"""What each function pays before its first event: its imports, with and without bytecode, and its first clients.

Processor time of a fresh process that sees the built code and layer and nothing else, the least of several; what the
interpreter itself takes to start is taken off.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from infra.assets.bundle import THIS_MACHINE, code_asset, layer_asset
from reservoir.names import Function

_RUNS = 7
_ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "HOME": "/nonexistent",
}
_CLIENTS = """
from reservoir.adapters.clients import make_client
for service in ("dynamodb", "ec2"):
    make_client(service, "us-east-1")
"""
# Where no bytecode is, and none is written.
_WITHOUT_BYTECODE = ("-X", "pycache_prefix=/nonexistent")


def cases() -> Sequence[str]:
    """Return one case a function."""
    return [f"start-{function}" for function in Function]


def run(case: str) -> dict[str, object]:
    """Start the function's module and return figures."""
    load = f"import functions.{case.removeprefix('start-')}.handler\n"
    nothing_s = _least_cpu_s("")
    compiled_s = _least_cpu_s(load)
    return {
        "import_cpu_s": round(compiled_s - nothing_s, 3),
        "import_without_bytecode_cpu_s": round(
            _least_cpu_s(load, *_WITHOUT_BYTECODE) - nothing_s, 3
        ),
        "clients_cpu_s": round(_least_cpu_s(load + _CLIENTS) - compiled_s, 3),
    }


def _least_cpu_s(program: str, *options: str) -> float:
    return min(_cpu_s(program, options) for _ in range(_RUNS))


def _cpu_s(program: str, options: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-P", "-S", "-B", *options, "-c", program],
        cwd="/",
        env={**_ENVIRONMENT, "PYTHONPATH": _search_path()},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@cache
def _search_path() -> str:
    return os.pathsep.join(
        (code_asset(THIS_MACHINE).path, f"{layer_asset(THIS_MACHINE).path}/python")
    )
