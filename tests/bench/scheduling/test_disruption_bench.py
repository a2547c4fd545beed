"""The bench of disruption measures what it says: cheaper with each pass, no replica lost, near the bound."""

from lab.bench.__main__ import benches
from lab.bench.scheduling import disruption


def test_it_is_found_with_all_sizes() -> None:
    assert "disruption" in {name for name, _ in benches()}
    assert {"nodes-100", "nodes-500", "nodes-2000", "nodes-5000", "fleet-2000"} <= set(
        disruption.cases()
    )


def test_karpenters_fleet_comes_to_rest_near_the_bound() -> None:
    first = disruption.first_pass("nodes-100")
    # asserts that no pass makes the fleet dearer or loses a replica
    figures = disruption.until_quiet("nodes-100")

    assert first["nodes_launched"] == 0
    # One pass empties 80 nodes, some of the following launch one node each for a dearer one that stayed.
    assert float(str(figures["saved_share_of_possible"])) > 0.999
    assert int(str(figures["passes_that_changed_something"])) <= 5
