"""The bench of questions asks what it says."""

from lab.bench.__main__ import benches
from lab.bench.scheduling import what_if


def test_a_small_question_is_answered() -> None:
    assert "what_if" in {name.replace("-", "_") for name, _ in benches()}
    assert what_if.cases() == ["what-if-10000", "what-if-10000-edited"]
    alone, beside = what_if.answer("what-if-50"), what_if.answer("what-if-50-edited")
    assert int(str(beside["answer_bytes"])) > int(str(alone["answer_bytes"])) > 1000
