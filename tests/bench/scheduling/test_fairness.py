"""The bench of fairness measures what it says."""

from lab.bench.scheduling.fairness import UNITS, jains_index, make, measure, water_level


def test_a_short_trace_is_fair_and_leaves_no_unit_idle() -> None:
    figures = measure("teams-8", "900")
    assert figures["minutes_contended"]
    assert float(str(figures["jains_index_mean"])) > 0.97
    assert figures["reserved_use_while_wanted"] == 1.0
    assert figures["team_minutes_below_quota_with_units_free"] == 0


def test_jains_index_is_one_at_the_water_level_and_less_elsewhere() -> None:
    first, second = (team.name for team in make("teams-2", 10).teams)
    teams = make("teams-2", 10).teams
    wanted = {first: UNITS, second: UNITS}
    level = water_level(teams, wanted)
    assert {name: round(units, 3) for name, units in level.items()} == {
        first: 83.333,
        second: 116.667,
    }
    assert jains_index(teams, {first: 84, second: 116}, wanted) > 0.999
    assert jains_index(teams, {first: UNITS, second: 0}, wanted) == 0.5
