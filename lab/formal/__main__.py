"""``python -m lab.formal``: search all models, and print as a table what was found."""

import sys

from lab.formal import spin
from lab.formal.models import CASES


def main() -> int:
    """Search; 0 when the models hold and all mistakes are found."""
    reason = spin.missing()
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    wrong = 0
    print("| model | shows, or the mistake | states | depth | found |")
    print("|---|---|---:|---:|---|")
    for case in CASES:
        found = spin.search(case.model, case.defines)
        wrong += (found.violation is not None) != (case.mistake is not None)
        said = "a counter-example" if found.violation else "holds"
        print(
            f"| `{case.model}` | {case.mistake or case.shows} | {found.states:,} | {found.depth} | {said} |"
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
