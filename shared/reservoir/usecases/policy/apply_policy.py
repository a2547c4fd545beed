"""Apply and delete policy: read, check, compare, and write all or nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.manifests.answers.render import says_the_same, wire_form
from reservoir.manifests.crosscheck import Doubt, ObjectSet, cross_check, problem_of
from reservoir.manifests.doubtful_values import doubts_in
from reservoir.manifests.events import Change
from reservoir.manifests.kinds.launch_limits import LaunchLimits
from reservoir.manifests.kinds.team import TeamManifest
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.known_values import KnownValues
from reservoir.manifests.parsing.problems import ManifestError, Problem, errors_of
from reservoir.manifests.validate import Manifest, Read, Reading, read_files
from reservoir.ports.errors import AwsError
from reservoir.ports.policy import (
    CHANGES_MAX,
    PolicyKind,
    PolicyObject,
    PolicyStatus,
    PolicyStore,
)
from reservoir.ports.state import ConflictError
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals, unresolved

Name = tuple[PolicyKind, str]


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One object, before and after; None where it did not or does not exist."""

    kind: PolicyKind
    name: str
    change: Change
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    generation: int
    revision: int | None  # of the object before
    status: PolicyStatus | None = None  # what an apply has found out about it


@dataclass(frozen=True, slots=True)
class Outcome:
    """The changes that were made (or would be, in a dry run), with warnings and ignored fields."""

    changes: tuple[PolicyChange, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def effective(self) -> tuple[PolicyChange, ...]:
        """The changes that are not "unchanged"."""
        return tuple(
            change for change in self.changes if change.change is not Change.UNCHANGED
        )


class ChangesPolicy(Protocol):
    """Writes changes of policy that were found to be right."""

    def change(self, changes: Sequence[PolicyChange]) -> None:
        """Write them all, or none; of those that change nothing only what was found out about them.

        Raises ManifestError, ConflictError and AwsError, as :meth:`ApplyPolicy.apply` does.
        """
        ...


def _nothing_known() -> KnownValues | None:
    return None


@dataclass(frozen=True, slots=True)
class ApplyPolicy:
    """Applies and deletes policy objects: finds out what would change and what is wrong with it, and has it written."""

    store: PolicyStore
    writer: ChangesPolicy
    principals: ResolvePrincipals
    limits: LaunchLimits | None = None  # of the deployment that the policy is for
    # what EC2 offers, read when it is compared with
    known: Callable[[], KnownValues | None] = _nothing_known
    # read when quotas are compared with them
    reservations: Callable[[], Sequence[CapacityReservation]] = tuple

    def apply(
        self, files: Iterable[tuple[str, str | bytes]], *, dry_run: bool = False
    ) -> Outcome:
        """Write the manifests of ``files``, given as (name, content): all of them, or nothing.

        Raises
        ------
        ManifestError
            Something is wrong; nothing was written.
        ConflictError
            An object changed since it was read (or since the resourceVersion that a manifest names).
        AwsError
            IAM does not answer who the principals of a team are.
        """
        return self.replace(files, (), dry_run=dry_run)

    def replace(
        self,
        files: Iterable[tuple[str, str | bytes]],
        removed: Sequence[Name],
        *,
        dry_run: bool = False,
        removed_at: Mapping[Name, int] | None = None,
    ) -> Outcome:
        """Apply ``files`` and delete what ``removed`` names, in the same transaction; what does not exist is gone.

        ``removed_at``: revisions that objects to delete must be at, as ``resourceVersion`` says it of a manifest.
        Raises ManifestError, ConflictError and AwsError as :meth:`apply` does.
        """
        reading = read_files(files)
        wanted = {
            _name(read.manifest): read for read in reading.manifests if _is_policy(read)
        }
        problems = [
            *reading.problems,
            *_not_policy(reading.manifests),
            *_removed_and_given(removed, wanted),
        ]
        try:
            stored = {(row.kind, row.name): row for row in self.store.list_all()}
            changes = [
                self._put_change(name, read.manifest, stored.get(name))
                for name, read in wanted.items()
            ]
            changes += [
                _delete_change(stored[name])
                for name in dict.fromkeys(removed)
                if name in stored
            ]
            problems += [
                *_switched(changes, wanted),
                *self._doubts(changes, stored, reading),
            ]
        except AwsError as error:
            if errors_of(problems):
                # doubts that need only the files are reported all the same
                raise ManifestError(problems) from error
            raise
        if errors_of(problems):
            raise ManifestError(problems)
        unchanged = {
            (change.kind, change.name)
            for change in changes
            if change.change is Change.UNCHANGED
        }
        _check_versions(wanted, stored, unchanged)
        _check_removed(removed_at or {}, stored)
        return self._commit(
            Outcome(tuple(sorted(changes, key=_order)), tuple(problems)), dry_run=dry_run
        )

    def delete(self, names: Sequence[Name], *, dry_run: bool = False) -> Outcome:
        """Delete objects; names that do not exist are left out of the outcome.

        Raises ManifestError when more change than one transaction holds, ConflictError when one moved meanwhile.
        """
        stored = {(row.kind, row.name): row for row in self.store.list_all()}
        changes = [
            _delete_change(stored[name]) for name in dict.fromkeys(names) if name in stored
        ]
        problems = self._doubts(changes, stored, Reading((), ()))
        return self._commit(
            Outcome(tuple(sorted(changes, key=_order)), tuple(problems)), dry_run=dry_run
        )

    def _doubts(
        self,
        changes: Sequence[PolicyChange],
        stored: Mapping[Name, PolicyObject],
        reading: Reading,
    ) -> list[Problem]:
        """Cross-check the policy as it would be, without objects that a faulty manifest may be about to change."""
        world = {
            name: row
            for name, row in stored.items()
            if row.kind not in reading.unread_kinds
        }
        for change in changes:
            name = (change.kind, change.name)
            if change.after is None:
                world.pop(name, None)
            else:
                before = world.get(
                    name, PolicyObject(change.kind, change.name, {}, change.generation, 0)
                )
                world[name] = replace(before, manifest=change.after)
        policy = policy_of(world.values())
        documents = {read.identity: read.document for read in reading.manifests}
        known = self.known()
        world_of_core = ObjectSet(
            policy.node_pools,
            policy.node_classes,
            teams=policy.teams,
            limits=self.limits,
            known=known,
            reservations=self.reservations()
            if any(team.quotas for team in policy.teams)
            else (),
        )
        doubts = [
            *cross_check(world_of_core, reading.unread_kinds),
            *_unresolved_principals(changes),
        ]
        found = [
            problem_of(doubt, documents.get((doubt.kind, doubt.name))) for doubt in doubts
        ]
        if known is not None:
            for document in reading.refused:
                found += doubts_in(document, known)
        return found

    def _put_change(
        self, name: Name, manifest: Manifest, before: PolicyObject | None
    ) -> PolicyChange:
        after = wire_form(manifest)
        kind, text = name
        status = None
        if isinstance(manifest, TeamManifest):
            status = self.principals.status_of(
                manifest, PolicyStatus() if before is None else before.status
            )
        if before is None:
            return PolicyChange(kind, text, Change.CREATED, None, after, 1, None, status)
        same = before.manifest == after or says_the_same(before.manifest, manifest)
        change, generation = (Change.UNCHANGED, 0) if same else (Change.UPDATED, 1)
        generation += before.generation
        return PolicyChange(
            kind, text, change, before.manifest, after, generation, before.revision, status
        )

    def _commit(self, outcome: Outcome, *, dry_run: bool) -> Outcome:
        count = len(outcome.effective)
        if count > CHANGES_MAX:
            message = (
                f"{count} objects change; at most {CHANGES_MAX} can be written at once"
            )
            raise ManifestError([Problem("", "size", message)])
        if not dry_run:
            self.writer.change(outcome.changes)
        return outcome


def _unresolved_principals(changes: Iterable[PolicyChange]) -> Iterator[Doubt]:
    for change in changes:
        message = None if change.status is None else unresolved(change.status)
        if message is not None:
            yield Doubt(
                change.kind,
                change.name,
                ("spec", "principals"),
                "principal-not-found",
                message,
            )


def _order(change: PolicyChange) -> tuple[str, str]:
    return change.kind, change.name


def _name(manifest: Manifest) -> Name:
    return PolicyKind(manifest.kind), manifest.metadata.name


def _is_policy(read: Read) -> bool:
    return not isinstance(read.manifest, WorkloadManifest)


def _not_policy(manifests: Iterable[Read]) -> list[Problem]:
    return [
        Problem(
            "kind",
            "not-policy",
            "is demand, not policy: send it to the demand queue",
            read.document.line_of(("kind",)),
            subject="/".join(read.identity),
            source=read.document.source,
        )
        for read in manifests
        if not _is_policy(read)
    ]


def names_in(files: Iterable[tuple[str, str | bytes]]) -> tuple[Name, ...]:
    """Return the policy objects that files name; whatever cannot be read names nothing."""
    return tuple(
        _name(read.manifest) for read in read_files(files).manifests if _is_policy(read)
    )


def _delete_change(before: PolicyObject) -> PolicyChange:
    return PolicyChange(
        before.kind,
        before.name,
        Change.DELETED,
        before.manifest,
        None,
        before.generation,
        before.revision,
    )


def _removed_and_given(
    removed: Iterable[Name], wanted: Mapping[Name, Read]
) -> Iterator[Problem]:
    for name in removed:
        read = wanted.get(name)
        if read is not None:
            yield Problem(
                "metadata.name",
                "removed",
                "is to be removed, and is given",
                read.document.line_of(("metadata", "name")),
                subject="/".join(read.identity),
                source=read.document.source,
            )


def _switched(
    changes: Iterable[PolicyChange], wanted: Mapping[Name, Read]
) -> Iterator[Problem]:
    """Yield pools that would become static, or no longer be: their nodes were launched as the other."""
    for change in changes:
        if (
            change.kind is not PolicyKind.NODE_POOL
            or change.before is None
            or change.after is None
        ):
            continue
        was_static, is_static = (
            it.get("spec", {}).get("replicas") is not None
            for it in (change.before, change.after)
        )
        if was_static == is_static:
            continue
        read = wanted[change.kind, change.name]
        wrong = (
            "cannot be added to a pool that has none"
            if is_static
            else "cannot be taken from a static pool"
        )
        yield Problem(
            "spec.replicas",
            "static",
            f"{wrong}: delete the pool, or make another one",
            read.document.line_of(("spec", "replicas")),
            subject="/".join(read.identity),
            source=read.document.source,
        )


def _check_versions(
    wanted: Mapping[Name, Read], stored: Mapping[Name, PolicyObject], unchanged: Set[Name]
) -> None:
    """Refuse to write over what somebody else wrote meanwhile. Raises ConflictError.

    An object that is stored as it is wanted is not written at all. A request that is repeated because its answer was
    lost finds its own objects so, and nobody else was faster.
    """
    for name, read in wanted.items():
        if name in unchanged:
            continue
        version = getattr(read.manifest.metadata, "resource_version", None)
        current = stored.get(name)
        if version is not None and version != (
            "" if current is None else str(current.revision)
        ):
            found = (
                "it does not exist" if current is None else f"it is at {current.revision}"
            )
            raise ConflictError(
                [f"{'/'.join(name)} (resourceVersion {version} was read, and now {found})"]
            )


def _check_removed(
    removed_at: Mapping[Name, int], stored: Mapping[Name, PolicyObject]
) -> None:
    for name, revision in removed_at.items():
        current = stored.get(name)
        if current is not None and current.revision != revision:
            raise ConflictError(
                [
                    f"{'/'.join(name)} ({revision} was read, and now it is at {current.revision})"
                ]
            )
