"""What documents tell of the stack is what the template says."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.app import ROOT
from infra.config import FUNCTIONS
from infra.naming import OLDER_INDEXES_CONTEXT
from infra.operations.idle_cost import costs, key_cost, schedules, tables
from reservoir.names import Function, Queue, Table, output_name
from tests.infra.reading import Resources, as_list, of_type, statements

# through its queue
SCHEDULED = {f: s.every_min for f, s in FUNCTIONS.items() if s.every_min} | {
    Function.PROVISION: 1
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """Yield the rows of the table whose first column has this heading."""
    lines = text.splitlines()
    start = next(
        index for index, line in enumerate(lines) if line.startswith(f"| {heading} |")
    )
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def names_of_functions(text: str) -> set[str]:
    return {
        function.value for function in Function if re.search(rf"\b{function.value}\b", text)
    }


def holder(policy: str) -> str:
    """Return the function whose role a policy belongs to."""
    for function in Function:
        if policy.startswith(f"{output_name(function)}Role"):
            return function.value
    return "the timers' role" if policy.startswith("DrainTimers") else policy


def told_holders(cell: str) -> set[str]:
    if cell == "the timers' role":
        return {cell}
    exceptions = (
        set(cell.removeprefix("all but ").split(", "))
        if cell.startswith("all but ")
        else set()
    )
    return (
        {f.value for f in Function} - exceptions
        if cell.startswith("all")
        else set(cell.split(", "))
    )


def test_the_security_page_tells_every_statement_its_holders_and_its_actions(
    resources: Resources,
) -> None:
    told = {
        coded(row[0])[0]: (told_holders(row[1]), set(coded(row[2])))
        for row in rows(page("security.md"), "statement")
    }
    true: dict[str, tuple[set[str], set[str]]] = {}
    for statement in statements(resources):
        if statement.sid:  # those without are the CDK's: logs, and the function's own queue
            holders, actions = true.setdefault(statement.sid, (set(), set()))
            holders.add(holder(statement.policy))
            actions.update(statement.actions)
    assert told == true


ABSOLUTE = re.compile(
    r"\b(never|only|every|always|neither|nobody|nothing (?:but|may)|no (?:function|policy|role|other)|alone ends)\b",
    re.IGNORECASE,
)


def test_what_the_security_page_rules_out_names_the_test_that_shows_it() -> None:
    text = page("security.md")
    claims = list(rows(text, "what"))
    assert len(claims) > 10
    for claim, shown_by in claims:
        tests = coded(shown_by)
        assert tests, claim
        for test in tests:
            path, _, function = test.partition("::")
            assert f"\ndef {function}(" in (ROOT / path).read_text(), (
                f"{claim}: there is no {test}"
            )
    table = {
        line for line in text.splitlines() if line.startswith("| ") and "`tests/" in line
    }
    elsewhere = [
        line for line in text.splitlines() if ABSOLUTE.search(line) and line not in table
    ]
    assert [line for line in elsewhere if not line.startswith("#")] == []


def test_the_security_page_tells_of_every_policy_for_people(
    template: dict[str, Any],
) -> None:
    told = {coded(row[0])[0] for row in rows(page("security.md"), "output")}
    assert told == {name for name in template["Outputs"] if name.endswith("PolicyArn")}


def test_the_page_of_nodes_shows_the_statements_of_the_policy(resources: Resources) -> None:
    shown = [
        json.loads(text)
        for text in re.findall(
            r"^```json\n(\{\"Effect\".+?)^```", page("nodes.md"), re.M | re.S
        )
    ]
    true = [
        each
        for each in statements(resources, for_people=True)
        if each.policy.startswith("PeopleNode")
    ]
    assert [(as_list(s["Action"]), s.get("Condition", {})) for s in shown] == [
        (list(each.actions), each.conditions) for each in true
    ]


def test_statements_without_a_name_are_the_two_that_the_page_mentions(
    resources: Resources,
) -> None:
    unnamed = {
        action.split(":")[0]
        for s in statements(resources)
        if not s.sid
        for action in s.actions
    }
    assert unnamed == {"logs", "sqs"}


def test_the_architecture_page_tells_who_writes_which_table(resources: Resources) -> None:
    told = {
        row[0]: names_of_functions(row[3]) for row in rows(page("architecture.md"), "table")
    }
    true: dict[str, set[str]] = {output_name(table.name): set() for table in Table}
    for statement in statements(resources):
        if statement.sid in ("WriteState", "KeepHistory", "NoteClasses"):
            for name in true:
                if any(arn.startswith(f"<State{name}") for arn in statement.resources):
                    true[name].add(holder(statement.policy))
    assert told == true


def test_the_architecture_page_tells_every_function_and_its_schedule() -> None:
    told = {coded(row[0])[0]: row[1] for row in rows(page("architecture.md"), "function")}
    assert set(told) == set(Function)
    for function, every_min in SCHEDULED.items():
        period = {1: "every minute"}.get(every_min, f"every {every_min} minutes")
        period = f"every {every_min // 60} h" if every_min >= 60 else period
        assert period in told[function], function


def test_the_runbook_has_a_row_for_each_alarm_and_no_other(resources: Resources) -> None:
    alarms = {
        name.removeprefix("Observability")[:-8]
        for name in of_type(resources, "AWS::CloudWatch::Alarm")
    }
    told = set[str]()
    for row in rows(page("runbook.md"), "alarm"):
        assert len(row) == 3, row
        assert all(row), row
        for name in coded(row[0]):
            told |= {
                name.replace("<Queue>", output_name(queue.name)) for queue in Queue
            } & alarms
            told |= {
                name.replace("<Function>", output_name(function)) for function in Function
            } & alarms
            assert "<" in name or name in alarms
    assert told == alarms


def test_pages_give_as_context_the_steps_of_an_update_and_no_setting() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    given = {
        name
        for path in pages
        for name in re.findall(r"(?:--context|\s-c) (\w+)=", path.read_text())
    }
    assert given == {OLDER_INDEXES_CONTEXT}


def test_the_idle_cost_is_computed_from_the_template_and_stays_below_10_usd(
    resources: Resources,
) -> None:
    assert tables(resources) in page("deploying.md"), (
        "python -m infra.operations.idle_cost prints it anew"
    )
    total = sum(cost.usd for cost in costs(resources))
    assert total < 10
    assert f"about {total:.2f} USD a month" in " ".join(
        (ROOT / "README.md").read_text().split()
    )


def test_the_page_says_what_a_key_adds_to_the_idle_cost(resources: Resources) -> None:
    key = key_cost(resources)
    said = " ".join(page("deploying.md").split())
    assert f"adds {key.usd:.2f} USD a month at most: {key.how}" in said


def test_the_idle_cost_counts_what_is_billed(resources: Resources) -> None:
    kinds = [resource["Type"] for resource in resources.values()]
    by_what = {cost.what: cost for cost in costs(resources)}
    assert (
        by_what["CloudWatch dashboard"].usd
        == 3.00 * kinds.count("AWS::CloudWatch::Dashboard")
        > 0
    )
    assert by_what["CloudWatch alarms"].usd == pytest.approx(
        0.10 * kinds.count("AWS::CloudWatch::Alarm")
    )
    assert {schedule.function for schedule in schedules(resources)} == set(SCHEDULED)


def test_an_alarm_on_an_expression_costs_each_of_its_metrics(resources: Resources) -> None:
    def part(name: str) -> dict[str, Any]:
        return {
            "Id": name,
            "MetricStat": {"Metric": {"Namespace": "AWS/Lambda", "MetricName": name}},
        }

    sum_of_two = {"Metrics": [{"Id": "sum", "Expression": "a + b"}, part("a"), part("b")]}
    more = {
        **resources,
        "Sum": {"Type": "AWS::CloudWatch::Alarm", "Properties": sum_of_two},
    }
    before, after = (
        {cost.what: cost.usd for cost in costs(it)}["CloudWatch alarms"]
        for it in (resources, more)
    )
    assert after - before == pytest.approx(0.20)
