"""Which paused pools would serve: their pause is then the reason that a person can do something about."""

from collections.abc import Callable, Iterator

from reservoir.core.explaining.mismatches import unmet_requirements
from reservoir.core.explaining.offering_failures import Failure
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.taint import binding_taints, untolerated
from reservoir.core.solver.problem.selection import Selection


def paused_pools(snapshot: Snapshot, selection: Selection, fits: Callable[[InstanceType], bool]) -> Iterator[Failure]:
    """Yield the paused pools that have a type for the work, and taints that it tolerates."""
    for pool in snapshot.node_pools:
        binding = binding_taints(pool.taints, pool.startup_taints, initialized=False)
        if pool.paused is None or next(untolerated(binding, selection.tolerations), None) is not None:
            continue
        if all(unmet_requirements(pool.requirements, term) for term in selection.terms):
            continue
        if any(pool.requirements.meets(it.requirements) and fits(it) for it in snapshot.instance_types):
            yield Failure(ReasonCode.NODE_POOL_PAUSED, f"NodePool {pool.name} is paused {pool.paused}")
