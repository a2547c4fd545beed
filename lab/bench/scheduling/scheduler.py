"""The scheduler: time, cost over a lower bound, memory, reserved units, and the same of Karpenter's loop."""

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from lab.bench.harness import fresh, in_calibrations, medians, peak_rss_mib, tell
from lab.bench.karpenter.port import Outcome, provision
from lab.bench.scheduling import catalogue_bound, ladder_bound
from lab.bench.worlds.cases import WORLDS
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.common import NOW
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures, calibration_python_s
from reservoir.core.checker import check
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import PreferencePolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.runtime.garbage import collection_paused

RUNS = 3
# the deadline of one pass; of processor time, so that a busy machine changes no plan
CERTIFIED_WITHIN_S = 10.0
_USD_ATTO = 10**18
_REPLICAS = (1000, 10_000, 100_000)
_SHAPES = (100, 300, 1000)
_BOUNDS = {
    "ladder": ladder_bound.bound_usd_per_hour,
    "catalogue": catalogue_bound.bound_usd_per_hour,
}


def cases() -> Sequence[str]:
    """Return the cases by name; ``scaling`` and ``cold-start`` are not single worlds."""
    return (*WORLDS, "scaling", "cold-start")


def run(case: str) -> Figures:
    """Measure one case."""
    if case == "cold-start":
        return _cold_start()
    if case == "scaling":
        return _scaling()
    world = WORLDS[case]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if len(world.seeds) == 1:
            return _one(case, world.seeds[0], folder)
        return _over_seeds([_told(seed, _one(case, seed, folder)) for seed in world.seeds])


# -- what runs in processes of its own


def prepare(case: str, seed: str, path: str) -> Figures:
    """Write the snapshot of a case as JSON, so that what is measured starts from text, as in production."""
    snapshot = WORLDS[case].make(int(seed))
    Path(path).write_text(dumps(snapshot))
    return {
        "prices": ec2_catalogue().prices
        if WORLDS[case].markets
        else "Karpenter's made-up prices"
    }


def prepare_mix(replicas: str, shapes: str, path: str) -> Figures:
    """Write the snapshot of a mix as JSON."""
    Path(path).write_text(
        dumps(mix_snapshot(Mix(int(replicas), int(shapes), reserved_percent=300)))
    )
    return {}


def ours(path: str, preferences: str, form: str) -> Figures:
    """Parse, solve, check and write one snapshot, without the collector of cyclic garbage, as the planner does."""
    # as a warm planner has
    import_module("reservoir.core.solver.column_generation.improve")
    text = Path(path).read_text()
    before_s = calibration_python_s()
    with collection_paused():
        figures = _pass(text, preferences, is_certified=form == "certified")
    # Right before and after: what slows a machine down for a while slows both.
    return in_calibrations(
        figures, {"calibration_python_s": min(before_s, calibration_python_s())}
    )


def _pass(text: str, preferences: str, *, is_certified: bool) -> Figures:
    started, started_cpu = time.perf_counter(), time.process_time()
    snapshot = loads(Snapshot, text)
    parsed, parsed_cpu = time.perf_counter(), time.process_time()
    policy = SchedulingPolicy(
        preference_policy=PreferencePolicy(preferences),
        with_certificate=is_certified,
        expired=lambda: time.process_time() - started_cpu > CERTIFIED_WITHIN_S,
    )
    plan = solve(snapshot, now=NOW, policy=policy)
    solved, solved_cpu = time.perf_counter(), time.process_time()
    violations = check(snapshot, plan, now=NOW, policy=policy)
    checked, checked_cpu = time.perf_counter(), time.process_time()
    written = dumps(plan)
    finished = time.perf_counter()
    bound = plan.lower_bound_atto_usd_per_hour
    return {
        "parse_s": parsed - started,
        "solve_s": solved - parsed,
        "solve_cpu_s": solved_cpu - parsed_cpu,
        "check_s": checked - solved,
        "plan_s": checked - started,
        "plan_cpu_s": checked_cpu - started_cpu,
        "json_in_out_s": finished - started,
        "peak_rss_mib": peak_rss_mib(),
        "cost_usd_per_hour": plan.cost_atto_usd_per_hour / _USD_ATTO,
        "bought_usd_per_hour": _bought(plan) / _USD_ATTO,
        "bound_usd_per_hour": None if bound is None else bound / _USD_ATTO,
        "nodes": sum(launch.count for launch in plan.launches),
        "unplaced": sum(item.count for item in plan.unplaced),
        "reserved_units_used": _reserved(plan),
        "violations": len(violations),
        "first_violation": str(violations[0]) if violations else "",
        "plan_bytes": len(written),
    }


def port(path: str, case: str, form: str) -> Figures:
    """Run Karpenter's loop on the same snapshot, in its default or its well-tuned form."""
    snapshot = loads(Snapshot, Path(path).read_text())
    outcome = provision(snapshot, NOW, WORLDS[case].tuned() if form == "tuned" else None)
    return {
        "s": outcome.seconds,
        "cost_usd_per_hour": _port_cost(outcome) / _USD_ATTO,
        "bought_usd_per_hour": outcome.bought_atto_usd / _USD_ATTO,
        "nodes": outcome.nodes,
        "loops": outcome.loops,
        "unplaced": outcome.unplaced,
        "reserved_units_used": outcome.reserved_units,
        "over_commitments": outcome.over_commitments,
    }


def bound(path: str, name: str) -> Figures:
    """Bound the cost of one snapshot by patterns of whole nodes."""
    return {"bound_usd_per_hour": _BOUNDS[name](loads(Snapshot, Path(path).read_text()))}


# -- putting it together


def _reserved(plan: Plan) -> int:
    return sum(
        launch.count
        for launch in plan.launches
        if launch.offering.reservation_id is not None
    )


def _bought(plan: Plan) -> int:
    """Sum what is paid to EC2 beside reservations, without the overhead of nodes."""
    return sum(
        item.price_atto_usd_per_hour * item.count
        for item in plan.launches
        if not item.offering.reservation_id
    )


def _port_cost(outcome: Outcome) -> int:
    overhead = SchedulingPolicy().node_overhead_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
    return outcome.price_atto_usd + overhead * outcome.nodes


def _one(case: str, seed: int, folder: str) -> Figures:
    """Measure one world: ours at once and certified, the port in its forms, all against one bound."""
    world = WORLDS[case]
    path = str(Path(folder) / f"{seed}.json")
    figures = fresh("lab.bench.scheduling.scheduler:prepare", case, str(seed), path)
    first = medians(
        [
            fresh("lab.bench.scheduling.scheduler:ours", path, world.preferences, "first")
            for _ in range(RUNS)
        ]
    )
    units = ("s", "cpu_s", "cpu_in_calibrations")
    renamed = {
        f"{name}_{unit}": f"first_{name}_{unit}"
        for name in ("plan", "solve")
        for unit in units
    }
    figures |= {
        renamed.get(name, name): value
        for name, value in first.items()
        if name != "bound_usd_per_hour"
    }
    least = _number(first["bound_usd_per_hour"])
    if world.is_certified:
        certified = fresh(
            "lab.bench.scheduling.scheduler:ours", path, world.preferences, "certified"
        )
        least = _number(certified["bound_usd_per_hour"])
        figures |= {
            "certified_plan_s": certified["plan_s"],
            "certified_plan_cpu_s": certified["plan_cpu_s"],
            "certified_plan_cpu_in_calibrations": certified["plan_cpu_in_calibrations"],
            "certified_json_in_out_s": certified["json_in_out_s"],
            "certified_cost_usd_per_hour": certified["cost_usd_per_hour"],
            "certified_peak_rss_mib": certified["peak_rss_mib"],
            "certified_violations": certified["violations"],
        }
    if world.bound != "certificate":
        found = _number(
            fresh("lab.bench.scheduling.scheduler:bound", path, world.bound)[
                "bound_usd_per_hour"
            ]
        )
        figures |= {} if least is None else {"certificate_usd_per_hour": least}
        # few whole nodes for accelerated work can count for more than patterns
        least = max(found or 0.0, least or 0.0)
    figures["bound_usd_per_hour"] = least
    for form in ("default", "tuned") if world.tuned() else ("default",):
        prefix = "port" if form == "default" else "port_tuned"
        peer = fresh("lab.bench.scheduling.scheduler:port", path, case, form)
        figures |= {f"{prefix}_{name}": value for name, value in peer.items()}
    return _rounded(figures | _ratios(figures))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _told(seed: int, figures: Figures) -> Figures:
    """Say how one seed went; the case's figures are of all."""
    told = {
        name: value
        for name, value in figures.items()
        if name.endswith(("cost_over_bound", "_over_certificate"))
    }
    tell(f"seed {seed}: {', '.join(f'{name} {value}' for name, value in told.items())}")
    return figures


def _ratios(figures: Figures) -> Figures:
    """Return each cost over the bound, ours over the certificate where that is another, and the port's over ours."""
    found: Figures = {}
    for below in ("bound", "certificate"):
        least = _number(figures.get(f"{below}_usd_per_hour"))
        for prefix in (
            ("", "certified_", "port_", "port_tuned_")
            if below == "bound"
            else ("", "certified_")
        ):
            cost = _number(figures.get(f"{prefix}cost_usd_per_hour"))
            if cost is not None and least:
                found[f"{prefix}cost_over_{below}"] = cost / least
    ours_cost = _number(figures["cost_usd_per_hour"])
    for prefix in ("port", "port_tuned"):
        cost = _number(figures.get(f"{prefix}_cost_usd_per_hour"))
        if cost is not None and ours_cost:
            found[f"{prefix}_cost_over_ours"] = cost / ours_cost
    return found


def _rounded(figures: Figures) -> Figures:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }


def _over_seeds(runs: Sequence[Figures]) -> Figures:
    """Report the median over the seeds, and the worst of times, ratios and sizes; say where a seed lacks a figure."""
    found: Figures = {"seeds": len(runs)}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [value for run in runs if (value := _number(run.get(name))) is not None]
        if not values:
            found[name] = next((run[name] for run in runs if run.get(name)), None)
            continue
        found[name] = statistics.median(values)
        if name.endswith(
            (
                "_s",
                "_mib",
                "_in_calibrations",
                "_over_bound",
                "_over_certificate",
                "violations",
                "unplaced",
            )
        ):
            found[f"{name}_worst"] = max(values)
        if len(values) < len(runs):
            found[f"{name}_seeds"] = len(values)
    return _rounded(found)


def _scaling() -> Figures:
    """Fit exponents of the processor time to solve: in replicas beyond 1,000 and in shapes."""
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = str(Path(folder) / "world.json")
        for name, sizes in (("replicas", _REPLICAS), ("shapes", _SHAPES)):
            times = []
            for size in sizes:
                replicas, shapes = (size, 200) if name == "replicas" else (10_000, size)
                fresh(
                    "lab.bench.scheduling.scheduler:prepare_mix",
                    str(replicas),
                    str(shapes),
                    path,
                )
                runs = [
                    fresh("lab.bench.scheduling.scheduler:ours", path, "Respect", "first")
                    for _ in range(RUNS)
                ]
                times.append(float(str(medians(runs)["solve_cpu_s"])))
                found[f"solve_cpu_{size}_{name}_s"] = times[-1]
            found[f"exponent_in_{name}"] = math.log(times[-1] / times[0]) / math.log(
                sizes[-1] / sizes[0]
            )
    return _rounded(found)


def _cold_start() -> Figures:
    """Import the core and solve a small world in processes that know nothing yet, with and without bytecode."""
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = str(Path(folder) / "world.json")
        fresh("lab.bench.scheduling.scheduler:prepare", "diverse-50", "0", path)
        for name in ("with_bytecode", "without_bytecode"):
            runs = []
            for index in range(RUNS + 1):
                cache = Path(folder) / (
                    name if name == "with_bytecode" else f"{name}-{index}"
                )
                environment = {
                    "PYTHONPYCACHEPREFIX": str(cache),
                    "PYTHONDONTWRITEBYTECODE": "",
                }
                runs.append(
                    fresh(
                        "lab.bench.scheduling.cold:import_and_solve",
                        path,
                        environment=environment,
                    )
                )
            # The first run wrote the bytecode that the others then have.
            for key, value in medians(runs[1:]).items():
                found[
                    f"{key.removesuffix('_s')}_{name}_s" if key.endswith("_s") else key
                ] = value
    return found
