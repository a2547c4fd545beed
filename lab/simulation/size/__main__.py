"""``python -m lab.simulation.size --nodes 5000 --reservations 50 --days 30``: what a month of a fleet comes to."""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator

from lab.simulation.kernel import HOUR
from lab.simulation.play import hushed
from lab.simulation.size.fleet import Fleet, Size
from lab.simulation.size.meter import Meter


def main() -> int:
    """Play the fleet, and print what it comes to."""
    parser = argparse.ArgumentParser(prog="python -m lab.simulation.size")
    parser.add_argument("--nodes", type=int, default=Size.nodes)
    parser.add_argument("--reservations", type=int, default=Size.reservations)
    parser.add_argument("--days", type=int, default=Size.days)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.process_time()
    meter = played(asked.seed, Size(asked.nodes, asked.reservations, asked.days))
    print("\n".join(told(meter)))
    print(f"\nplayed in {(time.process_time() - began) / 60:.1f} minutes of one core")
    return 0


def played(seed: int, size: Size) -> Meter:
    """Play a fleet for its days."""
    fleet = Fleet(seed, size)
    meter = Meter(fleet)
    fleet.watchers.append(meter)
    with hushed():
        fleet.live()
        while fleet.kernel.now_us < size.days * 24 * HOUR:
            fleet.kernel.step()
    fleet.lambdas.stop()
    return meter


def told(meter: Meter) -> Iterator[str]:
    """Yield the lines of the report."""
    size, hours = meter.fleet.size, meter.fleet.size.days * 24
    nodes = sum(meter.node_hours.values())
    yield f"{size.nodes:,} nodes, {size.reservations} reservations, {size.days} days"
    yield ""
    yield f"nodes on average: {nodes / hours:,.0f}, of {meter.wanted_hours / hours:,.0f} wanted"
    yield f"reserved units in use: {meter.node_hours['reserved'] / meter.reserved_hours:.1%}"
    waits = sorted(meter.waits_s)
    ninth = waits[len(waits) * 9 // 10]
    yield (
        f"from a message until all its replicas have a node planned: median {statistics.median(waits):.0f} s, "
        f"one of ten longer than {ninth:.0f} s, longest {waits[-1]:.0f} s ({len(waits):,} workloads)"
    )
    for what, usd in meter.money().items():
        yield f"{what}: {usd:,.0f} USD"
    yield ""
    yield "what the scheduler itself costs:"
    total = 0.0
    for what, how, usd in meter.bill():
        total += usd
        yield f"  {what}: {how}, {usd:.2f} USD"
    yield f"  together {total:.2f} USD, {total / sum(list(meter.money().values())[:3]):.4%} of what it manages"
    yield ""
    yield "runs and seconds by function:"
    for function, count in sorted(meter.tally.runs.items()):
        yield f"  {function}: {count:,} runs, {meter.tally.seconds[function] / count:.2f} s each"


if __name__ == "__main__":
    sys.exit(main())
