"""Draw ``docs/pictures/large-fleets.svg`` from the table of ``RESULTS.md``: ``python -m lab.bench.fleet_picture``."""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

_ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = _ROOT / "lab" / "bench" / "RESULTS.md"
PICTURE: Final = _ROOT / "docs" / "pictures" / "large-fleets.svg"
_STYLE: Final[Mapping[str, Any]] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "reservoir",  # the same picture for the same figures
}
_COLOURS: Final = {"planning": "#1f77b4", "disruption": "#d2691e"}
# A chart's title, and which columns it shows: the function, what is said of the line, its style.
_CHARTS: Final = (
    ("processor seconds", (("cold", "--"), ("warm", "-"))),
    ("MiB at most", (("MiB", "-"),)),
)


def figures(text: str) -> Mapping[str, Sequence[float]]:
    """Return the columns of the table of sizes, by their headings."""
    _, _, section = text.partition("\n## Large fleets\n")
    columns: dict[str, list[float]] = {}
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "nodes":
            columns = {heading: [] for heading in cells}
        elif re.match(r"\| [\d,]+ \|", line):
            for column, cell in zip(columns.values(), cells, strict=True):
                column.append(float(cell.replace(",", "")))
    return columns


def drawn(columns: Mapping[str, Sequence[float]]) -> str:
    """Return the picture: time and memory of a pass against the size of the fleet."""
    with mpl.rc_context(cast("Any", _STYLE)):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        for axes, (title, lines) in zip(
            cast("Any", figure.subplots(1, len(_CHARTS))), _CHARTS, strict=True
        ):
            for verb, colour in _COLOURS.items():
                for kind, style in lines:
                    label = verb if kind == "MiB" else f"{verb}, {kind}"
                    values = columns[f"{verb}, {kind}"]
                    axes.plot(
                        columns["nodes"],
                        values,
                        style,
                        marker="o",
                        markersize=3,
                        color=colour,
                        label=label,
                    )
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("nodes")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.grid(visible=True, linewidth=0.3)
            axes.legend(frameon=False, fontsize=8)
        text = StringIO()
        figure.savefig(
            text,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(
        drawn(figures(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8"
    )
