"""The mutants are of this code, and the table is of these mutants."""

from importlib.util import find_spec

import pytest

from lab.simulation.mutants import MUTANTS, ROOT, TABLE, Mutant, is_caught, table

CAUGHT_MIN = 30  # within 200 seeds


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_the_product_with_a_line_changed(mutant: Mutant) -> None:
    changed = mutant.source()
    assert changed != (ROOT / mutant.path).read_text(encoding="utf-8")
    compile(changed, mutant.path, "exec")
    assert find_spec(mutant.module), "else the product is played as it is"


def test_a_line_that_is_not_there_is_refused() -> None:
    gone = Mutant("gone", "lab/simulation/mutants.py", "no such line" + " anywhere", "")
    with pytest.raises(ValueError, match="has 0 times"):
        gone.source()


def test_the_table_has_every_mutant_and_says_how_many_were_caught() -> None:
    text = TABLE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line[:2] == "| "][1:]
    assert [row.split("|")[1].strip() for row in rows] == [
        mutant.name for mutant in MUTANTS
    ]
    assert text == table(rows)
    assert sum(map(is_caught, rows)) >= CAUGHT_MIN


def test_what_is_not_caught_has_a_reason() -> None:
    rows = [
        line.split("|")
        for line in TABLE.read_text(encoding="utf-8").splitlines()
        if "| not within" in line
    ]
    assert [row[1].strip() for row in rows if not row[5].strip()] == []
