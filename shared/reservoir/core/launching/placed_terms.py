"""The terms that replicas were placed with. They hold until the replicas have left, however the workload changes.

A claim records by which generation of its workload each replica was placed; the workload's row keeps the specs of
earlier generations for as long as their replicas run. In a snapshot such replicas belong to a workload of their own,
``namespace/name@generation``: room on nodes, quotas, notice and topology use the terms of that generation.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reservoir.core.model.node_claim import NodeClaim, PlacedGeneration, generations_of
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources

_MARK: Final = "@"


def current_key(workload_key: str) -> str:
    """Return the key of the workload that replicas belong to, whatever they were placed with."""
    return workload_key.partition(_MARK)[0]


def terms_of(workload: Workload) -> Workload:
    """Return the part of a workload that stays fixed once it is placed.

    ``do-not-disrupt`` is not part of it: as in Kubernetes it may be set, and removed, while the workload runs.
    """
    return replace(
        workload,
        replicas=0,
        annotations={},
        preferred_node_terms=(),
        fallback=(),
        max_price_micro_usd_per_hour=None,
        do_not_disrupt=False,
        handover=None,
        rolling_update=None,
        unknown={},
    )


def same_terms(one: Workload, other: Workload) -> bool:
    """Whether replicas of both are the same once they are placed."""
    return terms_of(one) == terms_of(replace(other, generation=one.generation))


def terms_at(generation: int, current: Workload, former: Sequence[Workload]) -> Workload:
    """Return the terms by which replicas of a generation were placed.

    ``former``: workloads by generation, each the last one with its terms. Replicas without a recorded generation (an
    earlier release placed them) take the oldest.
    """
    return next((each for each in former if each.generation >= generation), current)


def with_generations(
    noted: Iterable[PlacedGeneration],
    added: Iterable[PlacedReplicas],
    workloads: Mapping[str, Workload],
    room: Resources,
) -> tuple[PlacedGeneration, ...]:
    """Return the records with those of more replicas, placed as these workloads, by key, on a node with this room."""
    notes = {(note.workload_key, note.generation): note for note in noted}
    for placed in added:
        workload = workloads.get(placed.workload_key)
        if workload is not None:
            name = placed.workload_key, workload.generation
            count = placed.count + (notes[name].count if name in notes else 0)
            notes[name] = PlacedGeneration(
                *name, count, workload.requests.dominant_share_of(room)
            )
    return tuple(notes[name] for name in sorted(notes))


class PlacedTerms:
    """What runs, as it was placed. ``workloads`` are as they are wanted now, ``former`` their earlier specs, by key."""

    def __init__(
        self, workloads: Mapping[str, Workload], former: Mapping[str, Sequence[Workload]]
    ) -> None:
        # with former terms that replicas somewhere still have
        self.workloads: dict[str, Workload] = dict(workloads)
        self._former = {
            key: each for key, each in former.items() if each and key in workloads
        }

    def claims(self, claims: Mapping[str, NodeClaim]) -> dict[str, NodeClaim]:
        """Return the claims by id; replicas that were placed with other terms than today's have keys of their own."""
        if self._former:
            return {key: self.claim(claim) for key, claim in claims.items()}
        return dict(claims)

    def claim(self, claim: NodeClaim) -> NodeClaim:
        """Return the claim; replicas that were placed with other terms than today's have keys of their own."""
        awaiting = () if claim.drain is None else claim.drain.awaiting
        if all(
            placed.workload_key not in self._former
            for placed in (*claim.placements, *awaiting)
        ):
            return claim
        drain = claim.drain and replace(
            claim.drain, awaiting=self._as_placed(claim.placed_with, awaiting)
        )
        return replace(
            claim,
            placements=self._as_placed(claim.placed_with, claim.placements),
            drain=drain,
        )

    def outdated(self, claims: Iterable[NodeClaim]) -> Mapping[str, Counter[int]]:
        """Count the replicas on claims that were placed with other terms than today's, by workload.

        Of each workload they are counted by the last generation that had their terms.
        """
        found: dict[str, Counter[int]] = {}
        for claim in claims:
            known = [
                placed for placed in claim.placements if placed.workload_key in self._former
            ]
            for note in generations_of(claim.placed_with, known):
                generation = self._key(note).removeprefix(f"{note.workload_key}{_MARK}")
                if generation != note.workload_key:
                    by_generation = found.setdefault(note.workload_key, Counter())
                    by_generation[int(generation)] += note.count
        return found

    def outdated_on(self, claim: NodeClaim) -> Mapping[str, int]:
        """Count the replicas on a claim that were placed with other terms than today's, by workload."""
        return {key: each.total() for key, each in self.outdated([claim]).items()}

    def in_use(self, claims: Iterable[NodeClaim]) -> Mapping[str, frozenset[int]]:
        """Return which earlier generations replicas on the claims still need, by key."""
        found: dict[str, set[int]] = {}
        for claim in claims:
            awaiting = () if claim.drain is None else claim.drain.awaiting
            for placements in (claim.placements, awaiting):
                known = [
                    placed for placed in placements if placed.workload_key in self._former
                ]
                for note in generations_of(claim.placed_with, known):
                    terms = terms_at(
                        note.generation,
                        self.workloads[note.workload_key],
                        self._former[note.workload_key],
                    )
                    found.setdefault(note.workload_key, set()).add(terms.generation)
        return {key: frozenset(each) for key, each in found.items()}

    def _as_placed(
        self, noted: Sequence[PlacedGeneration], placements: Sequence[PlacedReplicas]
    ) -> tuple[PlacedReplicas, ...]:
        counts: dict[str, int] = {}
        for note in generations_of(noted, placements):
            key = self._key(note)
            counts[key] = counts.get(key, 0) + note.count
        return tuple(PlacedReplicas(key, counts[key]) for key in sorted(counts))

    def _key(self, note: PlacedGeneration) -> str:
        """Return the key under which replicas are shown; their terms are noted under it."""
        current = self.workloads.get(note.workload_key)
        if current is None or note.workload_key not in self._former:
            return note.workload_key
        terms = terms_at(note.generation, current, self._former[note.workload_key])
        if terms is current or same_terms(terms, current):
            return note.workload_key
        name = f"{current.name}{_MARK}{terms.generation}"
        shown = replace(
            terms,
            name=name,
            replicas=current.replicas,
            do_not_disrupt=current.do_not_disrupt,
        )
        self.workloads.setdefault(shown.key, shown)
        return shown.key
