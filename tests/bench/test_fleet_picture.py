"""The picture of large fleets in the documents shows the figures of the results."""

from lab.bench.fleet_picture import PICTURE, RESULTS, drawn, figures


def test_the_picture_is_of_the_figures_on_file() -> None:
    columns = figures(RESULTS.read_text(encoding="utf-8"))
    assert columns["nodes"][-1] == 50_000
    assert PICTURE.read_text(encoding="utf-8") == drawn(columns), (
        "python -m lab.bench.fleet_picture draws it anew"
    )
