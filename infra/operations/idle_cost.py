"""What a deployment costs while nothing happens, computed from the synthesised template.

``python -m infra.operations.idle_cost`` prints the tables of docs/deploying.md. Prices are list prices of us-east-1
without a free tier. What no template says, how long a pass takes and how much it reads, was measured: ``PASS_S`` is
twice what warm passes take on the embedded AWS with 100 reservations, reads are those of ``make bench ONLY=discovery``.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.app import build_app
from infra.iam.permissions import DUTIES
from infra.naming import DEPLOYMENT_CONTEXT
from reservoir.names import DEFAULT_STACK, Function

HOURS: Final = 730
MILLION: Final = 1_000_000

PASS_S: Final[Mapping[Function, float]] = {
    Function.DISCOVER_RESERVATIONS: 0.25,
    Function.DISCOVER_OFFERINGS: 60,
    Function.PROVISION: 0.1,
    Function.EXPIRE: 0.1,
    Function.DISRUPT: 0.1,
    Function.COLLECT: 0.15,
    Function.RECORD: 0.25,
}
READ_UNITS_A_PASS: Final[Mapping[Function, float]] = {
    Function.DISCOVER_RESERVATIONS: 9,
    Function.DISCOVER_OFFERINGS: 1_300,
    Function.PROVISION: 3,
    Function.EXPIRE: 3,
    Function.DISRUPT: 3,
    Function.COLLECT: 3,
    Function.RECORD: 25,
}
# Of 100 reservations a sample has some 20 KB; compressed, and as rows of 1 KB are written.
WRITE_UNITS_A_PASS: Final[Mapping[Function, float]] = {Function.RECORD: 4}
LOG_KB_A_PASS: Final = 2
LOG_KB_A_SAMPLE: Final = 10  # 20 reservations, a line each
# Lambda's pollers of a queue that is idle, each with a long poll of 20 s.
POLLERS: Final = 5
POLLS_A_MIN: Final = 3

LAMBDA_USD_A_GB_S: Final = 0.0000133334  # arm64
LAMBDA_USD_A_MILLION: Final = 0.20
ALARM_METRIC_USD: Final = 0.10
DASHBOARD_USD: Final = 3.00
SQS_USD_A_MILLION: Final = 0.40
SQS_FIFO_USD_A_MILLION: Final = 0.50
READS_USD_A_MILLION: Final = 0.125
WRITES_USD_A_MILLION: Final = 0.625
LOGS_USD_A_GB: Final = 0.50
KEY_USD: Final = 1.00
KEY_USD_A_MILLION: Final = 3.00
# DynamoDB asks KMS for the key of a table again for each role that has not used it for so long.
TABLE_KEY_KEPT_MIN: Final = 5

_PERIODS_MIN: Final = {"minute": 1, "hour": 60, "day": 24 * 60}
Resources = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A function that runs whether anything happens or not."""

    function: Function
    passes: int  # a month
    memory_mib: int

    @property
    def gb_s(self) -> int:
        """Memory times time in a month."""
        return round(self.passes * self.memory_mib / 1024 * PASS_S[self.function])


@dataclass(frozen=True, slots=True)
class Cost:
    """One line of the bill."""

    what: str
    how: str
    usd: float


def schedules(resources: Resources) -> list[Schedule]:
    """Return what the template's schedules run, through a queue or directly."""
    found = []
    for rule in _of_type(resources, "AWS::Events::Rule").values():
        if "ScheduleExpression" in rule:
            name = rule["Targets"][0]["Arn"]["Fn::GetAtt"][0]
            if resources[name]["Type"] == "AWS::SQS::Queue":
                name = _consumer(resources, name)
            function = resources[name]["Properties"]
            passes = round(HOURS * 60 / _every_min(rule["ScheduleExpression"]))
            found.append(
                Schedule(
                    Function(function["Handler"].split(".")[1]),
                    passes,
                    function["MemorySize"],
                )
            )
    return sorted(found, key=lambda schedule: list(Function).index(schedule.function))


def costs(resources: Resources) -> list[Cost]:
    """Return what a month of nothing costs."""
    runs = schedules(resources)
    passes, gb_s = sum(run.passes for run in runs), sum(run.gb_s for run in runs)
    reads = sum(run.passes * READ_UNITS_A_PASS[run.function] for run in runs)
    writes = sum(run.passes * WRITE_UNITS_A_PASS.get(run.function, 0) for run in runs)
    samples = sum(run.passes for run in runs if run.function is Function.RECORD)
    log_gb = (passes * LOG_KB_A_PASS + samples * LOG_KB_A_SAMPLE) / MILLION
    alarms = sum(
        _alarm_metrics(alarm)
        for alarm in _of_type(resources, "AWS::CloudWatch::Alarm").values()
    )
    dashboards = len(_of_type(resources, "AWS::CloudWatch::Dashboard"))
    return [
        Cost(
            "Lambda, arm64",
            f"{gb_s:,} GB-s at {LAMBDA_USD_A_GB_S:.10f}, {passes:,} requests at {LAMBDA_USD_A_MILLION:.2f} a million",
            gb_s * LAMBDA_USD_A_GB_S + passes * LAMBDA_USD_A_MILLION / MILLION,
        ),
        Cost(
            "CloudWatch alarms",
            f"{alarms} metrics at {ALARM_METRIC_USD:.2f}",
            alarms * ALARM_METRIC_USD,
        ),
        Cost(
            "CloudWatch dashboard",
            f"{dashboards} at {DASHBOARD_USD:.2f}",
            dashboards * DASHBOARD_USD,
        ),
        _polling(resources),
        Cost(
            "DynamoDB on demand",
            f"{reads / MILLION:.2f} million read units at {READS_USD_A_MILLION} a million,"
            f" {writes / MILLION:.2f} million write units at {WRITES_USD_A_MILLION}; equal rows are not written",
            (reads * READS_USD_A_MILLION + writes * WRITES_USD_A_MILLION) / MILLION,
        ),
        Cost(
            "Logs",
            f"{LOG_KB_A_PASS} KB a pass, {LOG_KB_A_SAMPLE} KB more a sample: {log_gb:.2f} GB at {LOGS_USD_A_GB:.2f}",
            log_gb * LOGS_USD_A_GB,
        ),
    ]


def key_cost(resources: Resources) -> Cost:
    """Return what a customer managed key of the deployment adds at the most."""
    requests = 0
    for run in schedules(resources):
        duty = DUTIES[run.function]
        asked_most = min(run.passes, HOURS * 60 // TABLE_KEY_KEPT_MIN)
        requests += asked_most * len({*duty.writes, *duty.reads})
    return Cost(
        "KMS",
        f"a key at {KEY_USD:.2f}, {requests / MILLION:.2f} million requests at {KEY_USD_A_MILLION:.2f} a million",
        KEY_USD + requests * KEY_USD_A_MILLION / MILLION,
    )


def tables(resources: Resources) -> str:
    """Return the tables of the page, in Markdown."""
    return "\n".join([*_passes(resources), "", *_bill(resources)]) + "\n"


def _passes(resources: Resources) -> Iterator[str]:
    yield "| function | passes a month | memory, MiB | seconds each | GB-seconds |"
    yield "|---|---|---|---|---|"
    for run in schedules(resources):
        seconds = PASS_S[run.function]
        yield f"| `{run.function}` | {run.passes:,} | {run.memory_mib:,} | {seconds:g} | {run.gb_s:,} |"


def _bill(resources: Resources) -> Iterator[str]:
    lines = costs(resources)
    yield "| what | how much at which price | USD a month |"
    yield "|---|---|---|"
    for cost in lines:
        yield f"| {cost.what} | {cost.how} | {cost.usd:.2f} |"
    yield f"| together | | **{sum(cost.usd for cost in lines):.2f}** |"


def _polling(resources: Resources) -> Cost:
    mappings = _of_type(resources, "AWS::Lambda::EventSourceMapping").values()
    queues = [
        resources[mapping["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        for mapping in mappings
    ]
    polls = POLLERS * POLLS_A_MIN * 60 * HOURS
    looks = sum(
        run.passes for run in schedules(resources) if run.function is Function.COLLECT
    )
    prices = [
        SQS_FIFO_USD_A_MILLION if queue.get("FifoQueue") else SQS_USD_A_MILLION
        for queue in queues
    ]
    return Cost(
        "SQS",
        f"{len(queues)} queues with {POLLERS} long polls of {60 // POLLS_A_MIN} s each:"
        f" {len(queues) * polls / MILLION:.1f} million requests at {SQS_USD_A_MILLION:.2f},"
        f" FIFO {SQS_FIFO_USD_A_MILLION:.2f}, a million; `collect` looks at each run for events that the bus refused",
        (sum(polls * price for price in prices) + looks * SQS_USD_A_MILLION) / MILLION,
    )


def _alarm_metrics(alarm: Mapping[str, Any]) -> int:
    """Count what CloudWatch bills: each metric of an expression is one."""
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", ())) or 1


def _of_type(resources: Resources, kind: str) -> dict[str, Mapping[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == kind
    }


def _consumer(resources: Resources, queue: str) -> str:
    for mapping in _of_type(resources, "AWS::Lambda::EventSourceMapping").values():
        if mapping["EventSourceArn"] == {"Fn::GetAtt": [queue, "Arn"]}:
            return str(mapping["FunctionName"]["Ref"])
    message = f"nothing works off {queue}"
    raise ValueError(message)


def _every_min(expression: str) -> int:
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if match is None:
        message = f"not a rate: {expression}"
        raise ValueError(message)
    return int(match[1]) * _PERIODS_MIN[match[2]]


def main() -> None:
    """Synthesise the default stack and print its tables."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "default.yaml"
        settings.write_text(f"stack: {DEFAULT_STACK}\n")
        build_app(outdir=Path(folder), context={DEPLOYMENT_CONTEXT: str(settings)}).synth()
        template = json.loads((Path(folder) / f"{DEFAULT_STACK}.template.json").read_text())
    resources = template["Resources"]
    sys.stdout.write(tables(resources))
    key = key_cost(resources)
    sys.stdout.write(f"With a key: {key.how}: {key.usd:.2f}\n")


if __name__ == "__main__":
    main()
