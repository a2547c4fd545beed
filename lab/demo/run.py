"""One run of the demo: played, concluded with an exit status, and cleared away."""

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from rich.console import Console
from rich.live import Live

from lab.demo.bill import make_bill, read_prices
from lab.demo.errors import (
    FAILED,
    RULE_BROKEN,
    TOO_SLOW,
    NotReachedError,
    RuleBrokenError,
    TooSlowError,
)
from lab.demo.evidence import Logs, keep_evidence, timed_out
from lab.demo.nodes import TUNING, Nodes, let_in
from lab.demo.observer import PATIENT, Observed, Observer
from lab.demo.paid_units import POLICY, reserve
from lab.demo.picture import draw
from lab.demo.report import closing_picture, span, violations
from lab.demo.scenario import BLOCK_COUNT, BLOCK_ENDS_IN, Story
from lab.demo.workload_system import WorkloadSystem
from lab.embedded.reservoir import DeployedReservoir, Report
from lab.embedded.reservoir.example import Titles, set_up
from reservoir.names import DEMAND_DEAD_LETTER_QUEUE, EVENT_BUS, Queue, output_name


class Playable(Protocol):
    """Something that is played once, on a deployment of its own."""

    @property
    def seen(self) -> Observed | None:
        """The last look at the world."""
        ...

    @property
    def logs(self) -> Logs:
        """Where the logs are."""
        ...

    def play(self) -> None:
        """Play it, to the end or to an error."""
        ...

    def stop(self) -> None:
        """End everything that was started."""
        ...


class Demo:
    """The story on a deployment of its own, watched in a terminal; ``pages`` is where its report is written."""

    def __init__(self, console: Console, report: Report, pages: Path) -> None:
        self.seen: Observed | None = None
        self._console = console
        self._report = report
        self._pages = pages
        self._reservoir = DeployedReservoir(report, run_nodes=True)
        self._shared = tempfile.TemporaryDirectory(
            prefix="reservoir-demo-", ignore_cleanup_errors=True
        )

    @property
    def logs(self) -> Logs:
        """Where the logs are."""
        return self._reservoir.aws

    def play(self) -> None:
        """Set up, play, show what came of it.

        Raises
        ------
        RuleBrokenError
            When EC2's state is not as it must be.
        TooSlowError
            When this machine could not keep up.
        """
        self._reservoir.start()
        nodes = Nodes(Path(self._shared.name))
        aws, outputs = self._reservoir.aws, self._reservoir.outputs
        let_in(aws, outputs["NodePolicyArn"])
        more = reserve(aws)
        titles = set_up(
            self._reservoir,
            self._report,
            BLOCK_ENDS_IN,
            nodes.prepare(),
            POLICY,
            block_count=BLOCK_COUNT,
        )
        titles = Titles({**titles.by_id, **more})
        observer = Observer(
            aws, bus_name=outputs[output_name(EVENT_BUS)], titles=titles.by_id
        )
        self.seen = observer.seen
        sqs = aws.client("sqs", config=PATIENT)
        workload_system = WorkloadSystem(
            sqs, outputs[output_name(Queue.DEMAND.value)], answered_by_nodes={TUNING}
        )
        with Live(console=self._console, refresh_per_second=4) as live:

            def show(seen: Observed, step: str, wanted: Mapping[str, int]) -> None:
                live.update(draw(seen, step, wanted))

            story = Story(
                aws,
                observer,
                titles,
                workload_system,
                show,
                time.monotonic,
                nodes,
                time.sleep,
            )
            story.play()
        stays = list(observer.seen.stays())
        reserved = [observer.seen.curves[title] for title in titles.by_id.values()]
        bill = make_bill(
            stays, read_prices(aws, stays), reserved, *span(self.seen, story.marks)
        )
        self._console.print(
            closing_picture(self.seen, story.marks, bill, self._console.width)
        )
        self._console.print(
            f"\n{TUNING}: {nodes.summary()}", highlight=False, soft_wrap=True
        )
        self._write_report()
        found = list(
            violations(story, aws, [outputs[output_name(DEMAND_DEAD_LETTER_QUEUE)]])
        )
        if found:
            raise RuleBrokenError("\n".join(found))

    def _write_report(self) -> None:
        """Have the command line write its report on this run, and say where it is."""
        page = self._pages / "demo-report.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        # the world's time, which has run ahead of ours
        until = self._reservoir.aws.clock.now().isoformat()
        command = [
            sys.executable,
            "-m",
            "reservoir",
            "report",
            "--since",
            "3h",
            "--until",
            until,
            "--html",
            str(page),
        ]
        subprocess.run(  # noqa: S603 - our own
            command,
            env=self._reservoir.environment(),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self._console.print(
            f"A report on this run: {page}", highlight=False, soft_wrap=True
        )

    def stop(self) -> None:
        """End the embedded AWS."""
        self._report("stopping")
        self._reservoir.stop()
        self._shared.cleanup()


def conclude(demo: Playable, console: Console, kept: Path) -> int:
    """Play; say how it ended, and where to look when it did not end well; return the exit status."""
    try:
        demo.play()
    except NotReachedError as error:
        if late := timed_out(demo.logs):
            killed = f"{error}; invocations of {', '.join(late)} were killed, because their real time was over"
            _explain(demo, console, kept, "this machine could not keep up", killed)
            return TOO_SLOW
        _explain(demo, console, kept, "a rule was broken", str(error))
        return RULE_BROKEN
    except RuleBrokenError as error:
        _explain(demo, console, kept, "a rule was broken", str(error))
        return RULE_BROKEN
    except (TooSlowError, ReadTimeoutError, ConnectTimeoutError, TimeoutError) as error:
        _explain(demo, console, kept, "this machine could not keep up", str(error))
        return TOO_SLOW
    except Exception:  # noqa: BLE001 - the evidence of what nobody expected is kept, too; nothing goes on after it
        _explain(demo, console, kept, "the demo itself failed", traceback.format_exc())
        return FAILED
    finally:
        demo.stop()
    console.print(
        "[bold green]EC2's state is as it must be.[/]  Next: make play", highlight=False
    )
    return 0


def _explain(demo: Playable, console: Console, kept: Path, verdict: str, why: str) -> None:
    folder = keep_evidence(demo.logs, demo.seen, f"{verdict}\n{why}", kept)
    console.print(f"[bold red]{verdict}[/]", highlight=False)
    console.print(why, highlight=False, markup=False)
    console.print(
        f"All logs and the last look at the world are in {folder}",
        highlight=False,
        soft_wrap=True,
    )
