"""Workloads."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from reservoir.cli.naming import DEFAULT_NAMESPACE
from reservoir.cli.nouns.noun import Facts, Noun, Rows, Selection, Selector, age, ahead
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.manifests.answers.explanations import StartEstimate
from reservoir.manifests.answers.listed import WorkloadRow, WorkloadState
from reservoir.usecases.listing.list_workloads import ListWorkloads

_STYLES: Final = {
    WorkloadState.WAITING: "yellow",
    WorkloadState.PARTIAL: "yellow",
    WorkloadState.WITHDRAWN: "dim",
}


def _read(stack: Connection, selection: Selection) -> Sequence[WorkloadRow]:
    lists = ListWorkloads(stack.outside.workloads, stack.outside.node_claims)
    if selection.names:
        home = selection.namespace or DEFAULT_NAMESPACE
        return lists.named(
            {name if "/" in name else f"{home}/{name}" for name in selection.names}
        )
    listed = lists.list(selection.namespace)
    if not listed.unread_count:
        return listed.rows
    return Rows(
        listed.rows,
        f"{listed.unread_count} more workloads wait and were not read: choose them by -n or by name",
    )


def _facts(row: WorkloadRow) -> Facts:
    namespace = str(row.metadata.namespace)
    return Facts(
        frozenset({row.metadata.name, f"{namespace}/{row.metadata.name}"}),
        (namespace,),
        row.metadata.labels,
        row.status.node_pools,
        row.status.state,
    )


def _listing(now: datetime) -> Listing[WorkloadRow]:
    return Listing(
        (
            Column("NAMESPACE", lambda row: str(row.metadata.namespace)),
            Column("NAME", lambda row: row.metadata.name),
            Column("REPLICAS", lambda row: str(row.spec.replicas), is_number=True),
            Column("PLACED", lambda row: str(row.status.placed), is_number=True),
            Column(
                "STATE",
                lambda row: row.status.state,
                style=lambda row: _STYLES.get(row.status.state, ""),
            ),
            Column("AGE", lambda row: age(row.status.submitted_at, now)),
            Column(
                "PRIORITY", lambda row: str(row.spec.priority), is_wide=True, is_number=True
            ),
            Column(
                "POOLS", lambda row: ",".join(row.status.node_pools) or "-", is_wide=True
            ),
            Column(
                "OUTDATED",
                lambda row: str(row.status.outdated),
                is_wide=True,
                is_number=True,
            ),
            Column("GENERATIONS", _generations, is_wide=True),
            Column("UPDATE WAITS FOR", _update, is_wide=True),
            Column(
                "COULD RUN",
                lambda row: ahead(row.status.next_feasible_at, now),
                is_wide=True,
            ),
            Column("STARTS", lambda row: _starts(row, now), is_wide=True),
            Column("WAITS FOR", _reasons, gives_way=True),
        ),
        lambda row: f"workload/{row.metadata.namespace}/{row.metadata.name}",
        lambda row: row.model_dump(mode="json", exclude_none=True),
    )


def _with_starts(stack: Connection, rows: Sequence[WorkloadRow]) -> Sequence[WorkloadRow]:
    """Add when those that wait will start."""
    from reservoir.cli.stack.starts import described_starts
    from reservoir.core.start_times.foreseen import is_foreseen

    keys = [
        _key(row)
        for row in rows
        if row.status.pending and is_foreseen(each.reason for each in row.status.waiting)
    ]
    starts = described_starts(stack, keys)
    return [_with_start(row, starts.get(_key(row))) for row in rows]


def _with_start(row: WorkloadRow, starts: StartEstimate | None) -> WorkloadRow:
    status = row.status.model_copy(update={"starts": starts})
    return row.model_copy(update={"status": status})


def _key(row: WorkloadRow) -> str:
    return f"{row.metadata.namespace}/{row.metadata.name}"


def _starts(row: WorkloadRow, now: datetime) -> str:
    """Return by when it has started, as likely as not and nine times in ten."""
    starts = row.status.starts
    return (
        f"{ahead(starts.p50_at, now)}, 90%: {ahead(starts.p90_at, now)}" if starts else "-"
    )


def _generations(row: WorkloadRow) -> str:
    """Return the present generation, and which earlier ones run still."""
    earlier = [
        f"{each.replicas} of {each.generation}" for each in row.status.outdated_generations
    ]
    return ", ".join([str(row.spec.generation), *earlier])


def _update(row: WorkloadRow) -> str:
    return row.status.rollout.waits_for if row.status.rollout else "-"


def _reasons(row: WorkloadRow) -> str:
    return (
        "; ".join(
            f"{each.replicas} x {each.reason.value}: {each.message}"
            for each in row.status.waiting
        )
        or "-"
    )


def _details(stack: Connection, row: WorkloadRow) -> Iterable[str]:
    from reservoir.cli.commands.see.explanation_text import workload_lines
    from reservoir.usecases.explaining.explain_workload import ExplainWorkload

    key = _key(row)
    found = ExplainWorkload(
        stack.outside.workloads,
        stack.outside.node_claims,
        stack.outside.reservations,
        stack.outside.shortage_history,
        stack.outside.clock,
    ).explain(key)
    return () if found is None else workload_lines(found)


NOUN: Final = Noun(
    "workloads",
    "workload",
    frozenset({Selector.LABEL, Selector.NAMESPACE, Selector.POOL, Selector.STATE}),
    _read,
    _facts,
    _listing,
    states=tuple(WorkloadState),
    details=_details,
    home=DEFAULT_NAMESPACE,
    more=_with_starts,
)
