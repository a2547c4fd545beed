"""What one workload may cost all others: the planner reads all of it in each pass, and a row has room for it.

A bound is named in its refusal. Each is several times what a workload of a cluster has.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from reservoir.core.model.workload import AffinityTerm, LabelSelector, Workload
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.serialisation.json_codec import dumps

# Only their author reads them, and one that sets do-not-disrupt.
MOST_ANNOTATION_BYTES: Final = 16 * 1024
# Requirements, tolerations, topology terms and parts of selectors, and values within them; a list of all instance types
# is 1,200 values.
MOST_CONSTRAINTS: Final = 100
MOST_CONSTRAINT_VALUES: Final = 2_000
# As it is stored. Beside it its row holds up to 96 KiB of earlier specs, and why replicas wait: together less than half
# of the 400 KB that DynamoDB takes, so that no later write of its row is refused.
MOST_STORED_BYTES: Final = 64 * 1024


def excesses(workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield the bounds that a workload passes: the field, and a sentence with the name of the bound."""
    annotations = sum(
        len(key) + len(value.encode()) for key, value in workload.annotations.items()
    )
    if annotations > MOST_ANNOTATION_BYTES:
        most = f"annotation bytes: {annotations} are more than the {MOST_ANNOTATION_BYTES} that a workload may have"
        yield "metadata.annotations", most
    sizes = list(_constraints(workload))
    values = sum(sizes)
    if len(sizes) > MOST_CONSTRAINTS:
        most = f"constraints: {len(sizes)} are more than the {MOST_CONSTRAINTS} that a workload may have"
        yield (
            "spec",
            f"{most}, with requirements, tolerations and topology terms counted together",
        )
    if values > MOST_CONSTRAINT_VALUES:
        most = f"constraint values: {values} are more than the {MOST_CONSTRAINT_VALUES} that a workload may have"
        yield "spec", most
    is_heavy = len(sizes) > MOST_CONSTRAINTS or values > MOST_CONSTRAINT_VALUES
    # what is refused already is not written out as well
    stored = 0 if is_heavy else len(dumps(workload).encode())
    if stored > MOST_STORED_BYTES:
        yield (
            "",
            f"stored bytes: {stored} are more than the {MOST_STORED_BYTES} that a workload may have",
        )


def _constraints(workload: Workload) -> Iterator[int]:
    """Yield how many values each constraint has."""
    node_terms = (
        workload.node_selector,
        *workload.required_node_terms,
        *(preferred.requirements for preferred in workload.preferred_node_terms),
    )
    for term in node_terms:
        yield from _of_requirements(term)
    yield from (0 for _ in workload.tolerations)
    for spread in workload.topology_spread:
        yield len(spread.match_label_keys)
        yield from _of_selector(spread.selector)
    yield from _of_affinity((*workload.affinity, *workload.anti_affinity))


def _of_requirements(requirements: Requirements) -> Iterator[int]:
    yield from (len(requirement.values) for requirement in requirements.values())


def _of_affinity(terms: Iterable[AffinityTerm]) -> Iterator[int]:
    for term in terms:
        yield len(term.namespaces)
        yield from _of_selector(term.selector)


def _of_selector(selector: LabelSelector) -> Iterator[int]:
    yield from (1 for _ in selector.match_labels)
    yield from (len(expression.values) for expression in selector.match_expressions)
