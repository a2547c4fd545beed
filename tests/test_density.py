"""What is counted as dense; the figures themselves are printed and judge nothing."""

from pathlib import Path

from lab.density import Density, density_of


def density(folder: Path, text: str) -> Density:
    file = folder / "module.py"
    file.write_text(text)
    return density_of([file])


def test_a_comprehension_inside_another_is_nested(tmp_path: Path) -> None:
    found = density(tmp_path, "rows = [[cell for cell in row] for row in table]\n")
    assert (found.comprehensions, found.nested) == (2, 1)


def test_so_is_one_with_two_loops(tmp_path: Path) -> None:
    found = density(tmp_path, "cells = [cell for row in table for cell in row]\n")
    assert (found.comprehensions, found.nested) == (1, 1)


def test_a_loop_that_fills_a_list_is_not_dense(tmp_path: Path) -> None:
    found = density(tmp_path, "cells = []\nfor row in table:\n    cells.extend(row)\n")
    assert (found.lines, found.comprehensions, found.nested) == (3, 0, 0)


def test_comments_and_empty_lines_are_no_code(tmp_path: Path) -> None:
    found = density(tmp_path, "# why\n\nnext_pass = 1\n")
    assert (found.lines, found.comments) == (1, 1)


def test_figures_are_for_a_hundred_lines(tmp_path: Path) -> None:
    found = density(tmp_path, "a = 1\n" * 49 + "b = [x for x in y]\n")
    assert found.row("room").split() == ["room", "50", "2.0", "0.00", "0.0", "5"]
