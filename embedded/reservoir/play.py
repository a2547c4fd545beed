"""``make play``: Reservoir on an embedded AWS, kept up until Ctrl-C, for the command line and for any AWS tool."""

import argparse
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, TextIO

from embedded.client import EmbeddedAws
from embedded.reservoir.assembly import ROOT
from embedded.reservoir.example import EXAMPLES, set_up
from embedded.reservoir.stack import DeployedReservoir
from shared.names import Queue, output_name

BLOCK_ENDS_IN: Final = timedelta(days=3)  # time enough to try things
FIRST: Final = EXAMPLES / "first.json"


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout, progress: TextIO = sys.stderr) -> int:
    """Deploy, say where everything is, and wait for Ctrl-C or SIGTERM."""
    argparse.ArgumentParser(prog="python -m embedded.reservoir", description=__doc__).parse_args(arguments)
    started = time.monotonic()

    def report(line: str) -> None:
        progress.write(f"{time.monotonic() - started:5.1f} s  {line}\n")
        progress.flush()

    stopped = threading.Event()
    with DeployedReservoir(report) as reservoir:
        set_up(reservoir, report, BLOCK_ENDS_IN)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stopped.set())
        report("it runs until Ctrl-C")
        out.write(guide(reservoir.aws, reservoir.outputs))
        out.flush()
        stopped.wait()
        report("stopping")
    return 0


def guide(aws: EmbeddedAws, outputs: Mapping[str, str]) -> str:
    """Return the settings for other terminals, and what to try with them."""
    exports = "\n".join(
        f"  export {name}={shlex.quote(value)}"
        for name, value in aws.environment().items()
        if os.environ.get(name) != value
    )
    queue = outputs[output_name(Queue.DEMAND.value)]
    message = f"open('{FIRST.relative_to(ROOT)}').read()"
    send = f"import boto3; boto3.client('sqs').send_message(QueueUrl='{queue}', MessageBody={message})"
    return f"""
Reservoir runs on an embedded AWS. In another terminal, in {ROOT}:

  source .venv/bin/activate
{exports}

With these, the command line and every AWS tool speak to it. The policy is
examples/demo/policy.yaml. To try next:

  # what is there, and whether it is ready
  python -m reservoir get
  # send the first workload, a message on the queue `demand`
  python -c "{send}"
  # where it runs, or why it waits
  python -m reservoir explain workload trying/first
  # ten minutes later at once (docs/embedded-aws.md tells what else there is)
  curl -d '{{"advance_s": 600}}' {aws.control.url}/clock

"""
