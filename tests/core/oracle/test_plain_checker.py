"""The checker that plans are committed by agrees with the plain one, which looks at every node by itself."""

import pytest

from lab.oracle.agreement import disagreement, main, variants
from reservoir.core.checker import ViolationCode

SEEDS = range(60)
BATCH = 10
# Shortcomings forbid nothing, and quotas of teams are judged by the checker alone.
HARD = {
    code
    for code in ViolationCode
    if code
    not in (
        ViolationCode.DEAR_SPOT,
        ViolationCode.PRIORITY_INVERSION,
        ViolationCode.TEAM_OWED,
        ViolationCode.PAID_WHILE_FREE,
        ViolationCode.BELOW_FLOOR,
        ViolationCode.UNPLACED_WITHOUT_CAUSE,
        ViolationCode.TEAM_QUOTA,
    )
}


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BATCH))
def test_both_forbid_the_same_plans_for_the_same_rules(first: int) -> None:
    for seed in range(first, first + BATCH):
        for changed, it in variants(seed):
            assert disagreement(it) is None, f"seed {seed}, {changed}"


def test_every_rule_is_broken_by_some_of_these_plans() -> None:
    broken = {
        code for seed in SEEDS for _, it in variants(seed) for code in it.rules_found()[1]
    }
    assert broken == HARD


def test_the_comparison_says_what_it_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plans", "80", "--seed", "7"]) == 0
    assert "80 plans, " in capsys.readouterr().out
