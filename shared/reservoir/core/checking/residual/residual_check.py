"""What the plan leaves over, and whether it may: rule 3, priorities on reserved units, and the truth of every refusal.

These checks report only certain violations: requirements, taints, limits and topology are read strictly here. A case
that the final state does not decide (a gang bound by topology, for instance) is accepted.
"""

from collections.abc import Iterator

from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.residual.held_units import HeldUnitsCheck
from reservoir.core.checking.residual.leftovers import Leftovers
from reservoir.core.checking.residual.paid_while_free import PaidWhileFreeCheck
from reservoir.core.checking.residual.refusals import RefusalCheck
from reservoir.core.checking.violation import Violation


def residual_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Check what is bought beside free units, who holds the reserved ones, and every refusal."""
    leftovers = Leftovers(facts, topology)
    yield from PaidWhileFreeCheck(leftovers).violations()
    yield from HeldUnitsCheck(leftovers).violations()
    yield from RefusalCheck(leftovers).violations()
