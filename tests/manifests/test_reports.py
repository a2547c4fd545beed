"""Reports of nodes: untrusted JSON, refused with what is wrong."""

import json
from typing import Any

import pytest

from reservoir.manifests.parsing.problems import ManifestError
from reservoir.manifests.reports import LOG_TAIL_MAX, FailedReport, parse_report

FAILED: dict[str, Any] = {
    "report": "failed",
    "workload": {"namespace": "research", "name": "train"},
    "exitCode": 137,
    "restarts": 2,
    "nextStartInS": 40,
    "logTail": "out of memory",
}


def test_a_report_is_read() -> None:
    report = parse_report(json.dumps(FAILED))
    assert isinstance(report, FailedReport)
    assert (report.workload.key, report.exit_code, report.log_tail) == (
        "research/train",
        137,
        "out of memory",
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"report": "Failed"}, "report"),
        ({"report": None}, "report"),
        ({"schemaVersion": 2}, "schema-version"),
        ({"logTail": "x" * (LOG_TAIL_MAX + 1)}, "string_too_long"),
        ({"exitCode": 256}, "less_than_equal"),
        ({"nodeClaim": "nc-of-somebody-else"}, "unknown-field"),
        ({"workload": {"name": "Bad Name"}}, "name"),
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_report(json.dumps({**FAILED, **change}))
    assert (
        rule in {problem.rule for problem in refused.value.problems}
        or refused.value.problems
    )


@pytest.mark.parametrize(
    "body", ["", "[]", "null", '{"report": "ready", "report": "ready"}', "\x00"]
)
def test_what_is_no_report_is_refused(body: str) -> None:
    with pytest.raises(ManifestError):
        parse_report(body)
