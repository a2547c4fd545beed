"""Play the demo: ``python -m demo``. Exits 0 only if EC2's state is as it must be."""

import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live

from demo.observer import Observed, Observer
from demo.picture import draw
from demo.report import closing_table, on_demand_prices, violations
from demo.scenario import BLOCK_ENDS_IN, DemoFailedError, Story
from embedded.reservoir import DeployedReservoir, Report
from embedded.reservoir.example import set_up
from shared.names import DEMAND_DEAD_LETTER_QUEUE, EVENT_BUS, Queue, output_name


def main() -> int:
    """Set up, play, report."""
    console = Console()
    started = time.monotonic()

    def report(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:5.1f} s[/]  {line}", highlight=False)

    reservoir = DeployedReservoir(report)
    try:
        reservoir.start()
        return _play(console, reservoir, report)
    except DemoFailedError as error:
        console.print(f"[bold red]failed[/]  {error}", highlight=False)
        return 1
    finally:
        report("stopping")
        reservoir.stop()


def _play(console: Console, reservoir: DeployedReservoir, report: Report) -> int:
    aws, outputs = reservoir.aws, reservoir.outputs
    titles = set_up(reservoir, report, BLOCK_ENDS_IN)
    observer = Observer(aws, bus_name=outputs[output_name(EVENT_BUS)], titles=titles.by_id)
    with Live(console=console, refresh_per_second=8, transient=False) as live:

        def show(seen: Observed, step: str, wanted: Mapping[str, int]) -> None:
            live.update(draw(seen, step, wanted))

        story = Story(
            aws,
            observer,
            titles,
            outputs[output_name(Queue.DEMAND.value)],
            show,
            time.monotonic,
            time.sleep,
        )
        story.play()
    types = {detail["node"]["instanceType"] for detail in observer.seen.launched.values()}
    console.print(closing_table(story, on_demand_prices(aws, types)))
    found = list(violations(story, aws, [outputs[output_name(DEMAND_DEAD_LETTER_QUEUE)]]))
    for violation in found:
        console.print(f"[bold red]wrong[/]  {violation}", highlight=False)
    if not found:
        console.print("[bold green]EC2's state is as it must be.[/]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
