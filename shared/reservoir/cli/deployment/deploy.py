"""``make deploy`` and ``make diff``: what is about to happen is said, and what cannot be meant is refused."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from botocore.exceptions import ClientError

from infra.manifests import read_manifests
from infra.naming import CREATING_CONTEXT, OLDER_INDEXES_CONTEXT
from reservoir.cli.deployment.account import SPOT_ROLE, Account, FoundStack
from reservoir.cli.deployment.cdk import Cdk
from reservoir.deployment.deployment import Deployment, table_field
from reservoir.deployment.partitions import unserved
from reservoir.manifests.events import Change
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.names import MANIFEST_NAME, MANIFEST_TEXT, RELEASE_OUTPUT, VERSION
from reservoir.ports.errors import AccessDeniedError, AwsError
from reservoir.ports.policy import PolicyKind, PolicyStore
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.policy.apply_policy import ApplyPolicy, Name, names_in
from reservoir.usecases.policy.deploy_policy import removed_names
from reservoir.usecases.policy.open_doors import open_doors
from reservoir.usecases.policy.policy_objects import policy_of

Report = Callable[[str], None]

_CREATING: Final = ("--context", f"{CREATING_CONTEXT}=true")
_KEEPING_INDEXES: Final = ("--context", f"{OLDER_INDEXES_CONTEXT}=true")


@dataclass(frozen=True, slots=True)
class Deployed:
    """The stores of a stack that stands, for saying what becomes of its policy."""

    policy: PolicyStore
    node_claims: NodeClaimStore
    applier: ApplyPolicy
    namespaces: Callable[[], Collection[str]]  # with work that runs or waits
    demand_policy: Callable[[], str | None]  # of the demand queue


@dataclass(frozen=True, slots=True)
class Deploy:
    """Deploys one deployment into one account."""

    deployment: Deployment
    account: Account
    connect: Callable[[FoundStack], Deployed]
    cdk: Cdk
    report: Report

    def run(self, arguments: Sequence[str], *, to_older: bool = False) -> None:
        """Create or update the stack; ``arguments`` go to ``cdk deploy``.

        ``to_older``: this release may be older than the one that is deployed.

        Raises
        ------
        ManifestError
            The settings contradict what the account holds, or the policy is wrong; nothing was touched.
        CdkError
            The CDK's command line failed.
        LeftoversError
            What an attempt before made cannot be deleted.
        """
        standing = self.check(to_older=to_older)
        if standing is None:
            self.account.clear_failed(self.deployment.stack)
            # What protects itself from deletion would outlive a create that fails, and the stack itself would be in the
            # way of the next attempt: they begin without.
            self.cdk("deploy", *_CREATING, *arguments)
        if standing is not None and standing.outputs.get(RELEASE_OUTPUT) != VERSION:
            # Functions of the release before run until it is over. It also makes new indexes: CloudFormation makes or
            # deletes one of a table at a time.
            self.cdk("deploy", *_KEEPING_INDEXES, *arguments)
        self.cdk("deploy", *arguments)
        # Last: an earlier release made the role in the stack, and this update deletes it where nothing uses it.
        if self.deployment.settings.spot_service_linked_role:
            self._make_spot_role()
        self._warn_of_open_doors()

    def diff(self, arguments: Sequence[str]) -> None:
        """Say what a deployment would change; ``arguments`` go to ``cdk diff``. Raises as ``run`` does."""
        self.check(to_older=True)  # nothing is deployed
        self.cdk("diff", *arguments)

    def check(self, *, to_older: bool) -> FoundStack | None:
        """Refuse what cannot be meant, say what becomes of the policy; return the stack if it stands.

        ``to_older`` as of ``run``.

        Raises
        ------
        ManifestError
            The settings contradict what the account holds, or the policy is wrong.
        """
        stacks = self.account.stacks()
        problems = [
            *self._unserved(),
            *contradictions(self.deployment, self.account.id(), stacks),
        ]
        standing = next(
            (stack for stack in stacks if stack.name == self.deployment.stack), None
        )
        if not problems and standing is not None:
            problems += self._unready(standing)
        if not problems:
            problems += self._flaws(stacks)
            problems += (
                [*self._left_behind(), *self._timers_left_behind()]
                if standing is None
                else self._lost(standing)
            )
        if not problems and standing is not None and not to_older:
            problems += self._newer(standing)
        if problems:
            raise ManifestError(problems)
        if standing is not None:
            used = replace(standing, tables={**standing.tables, **self.deployment.tables})
            try:
                self._print_policy_changes(self.connect(used))
            except AccessDeniedError as error:
                self.report(
                    f"warning: the changes of policy could not be determined: {error}"
                )
        return standing

    def _unserved(self) -> Iterator[Problem]:
        """Refuse a region that only the environment names, as the settings file's is."""
        reason = unserved(self.account.region)
        if reason is not None:
            yield self._problem(
                "region", "partition", f"{self.account.region} is not supported: {reason}"
            )

    def _unready(self, stack: FoundStack) -> Iterator[Problem]:
        """Refuse a stack that CloudFormation does not update; one that is being made has no outputs yet."""
        if stack.hindrance is not None and not stack.is_continued_by_cdk:
            why, advice = stack.hindrance
            yield self._problem("stack", "status", f"{why}: {advice}")

    def _flaws(self, stacks: Iterable[FoundStack]) -> Iterator[Problem]:
        """Look at the tables that are to be adopted."""
        for table, name in self.deployment.tables.items():
            path = f"tables.{table_field(table)}"
            users = [
                it.name
                for it in stacks
                if it.name != self.deployment.stack and name in it.tables.values()
            ]
            if users:
                yield self._problem(
                    path, "table", f"{name} is used by the stack {users[0]}"
                )
            for flaw in self.account.flaws_of(table, name):
                yield self._problem(path, "table", f"{name} {flaw}")

    def _lost(self, stack: FoundStack) -> Iterator[Problem]:
        """Look for the stack's own tables: CloudFormation does not notice that one is gone, and makes no new one."""
        for table, name in stack.tables.items():
            if table not in self.deployment.tables and not self.account.has_table(name):
                message = f"{name}, the stack's own, does not exist any more: restore it and name the new one here"
                yield self._problem(f"tables.{table_field(table)}", "lost", message)

    def _newer(self, stack: FoundStack) -> Iterator[Problem]:
        """Refuse to replace a newer release by accident: a checkout that was not updated is the usual way there."""
        deployed = stack.outputs.get(RELEASE_OUTPUT)
        if deployed is not None and _release(deployed) > _release(VERSION):
            message = f"{stack.name} runs release {deployed}, and this is {VERSION}: to go back to it, add --rollback"
            yield self._problem("stack", "older-release", message)

    def _left_behind(self) -> Iterator[Problem]:
        """Look for tables of an earlier stack of this name: new, empty ones beside them would forget a fleet."""
        for table, found in self.account.left_tables(self.deployment.stack).items():
            if table not in self.deployment.tables:
                path = f"tables.{table_field(table)}"
                yield self._problem(
                    path,
                    "left-behind",
                    f"an earlier stack {self.deployment.stack} left {', '.join(found)}: name it here to keep using it,"
                    " or delete it",
                )

    def _timers_left_behind(self) -> Iterator[Problem]:
        group = self.account.left_timers(self.deployment.stack)
        if group is not None:
            message = (
                f"an earlier stack {self.deployment.stack} left the schedule group {group}, whose name a new one takes:"
                f" aws scheduler delete-schedule-group --name {group}"
            )
            yield self._problem("stack", "left-behind", message)

    def _make_spot_role(self) -> None:
        """Make the role if it is missing. Without the permission, print a warning: the stack works without spot."""
        try:
            if self.account.make_spot_role():
                self.report(f"{SPOT_ROLE} was missing, and was created")
        except ClientError as error:
            making = (
                "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
            )
            self.report(f"warning: {SPOT_ROLE} was not made: {error}; ask for `{making}`")

    def _warn_of_open_doors(self) -> None:
        """Warn after the deployment of namespaces and queues that are open to others, or if that cannot be checked."""
        name = self.deployment.stack
        found = next((it for it in self.account.stacks() if it.name == name), None)
        if found is None:
            return
        used = replace(found, tables={**found.tables, **self.deployment.tables})
        try:
            stack = self.connect(used)
            policy = policy_of(stack.policy.list_all())
            if policy.unreadable:
                return
            doors = list(
                open_doors(
                    policy.teams,
                    stack.namespaces(),
                    self.account.id(),
                    stack.demand_policy(),
                )
            )
        except AwsError as error:
            self.report(f"warning: the rights of senders could not be checked: {error}")
            return
        for door in doors:
            self.report(f"warning: {door.message}; {door.advice}")

    def _print_policy_changes(self, stack: Deployed) -> None:
        folder = self.deployment.manifests
        files = (
            []
            if folder is None
            else [(it[MANIFEST_NAME], it[MANIFEST_TEXT]) for it in read_manifests(folder)]
        )
        removed = removed_names(self.deployment.settings.removed)
        outcome = stack.applier.replace(files, removed, dry_run=True)
        for problem in outcome.problems:
            self.report(str(problem))
        standing = Counter(claim.node_pool_name for claim in stack.node_claims.list_live())
        for change in outcome.effective:
            nodes = standing[change.name] if change.kind is PolicyKind.NODE_POOL else 0
            leaves = (
                f", and its nodes are drained: {nodes}"
                if change.change is Change.DELETED and nodes
                else ""
            )
            self.report(
                f"policy: {change.kind}/{change.name} will be {change.change}{leaves}"
            )
        named = {*names_in(files), *removed}
        for name in left_alone(stack.policy, named):
            self.report(
                f"policy: {'/'.join(name)} is in force and not in the folder: it stays until removed names it"
            )

    def _problem(self, path: str, rule: str, message: str) -> Problem:
        return Problem(path, rule, message, source=str(self.deployment.path))


def _release(version: str) -> tuple[int, ...]:
    """Return a release in its order; what follows its numbers (a suffix of a candidate) does not count."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0]))


def left_alone(store: PolicyStore, named: Iterable[Name]) -> list[Name]:
    """Return the objects that a deployment says nothing about."""
    return sorted({(row.kind, row.name) for row in store.list_all()} - set(named))


def contradictions(
    deployment: Deployment, account: str, stacks: Iterable[FoundStack]
) -> Iterator[Problem]:
    """Yield why the settings cannot be meant, as things are in the account."""
    source, wanted = str(deployment.path), deployment.settings.account
    if wanted is not None and account != wanted:
        yield Problem(
            "account",
            "account",
            f"is {wanted}, and these are credentials of {account}",
            source=source,
        )
        return
    for stack in stacks:
        if stack.name == deployment.stack and stack.deployment not in (
            None,
            deployment.name,
        ):
            message = (
                f"{stack.name} is the stack of the deployment {stack.deployment}; "
                "give this deployment another name"
            )
            yield Problem("stack", "stack", message, source=source)
        if stack.name != deployment.stack and stack.deployment == deployment.name:
            message = (
                f"{deployment.name} is deployed as {stack.name}, and {deployment.stack} would be a second stack;"
                " for one, write a second settings file"
            )
            yield Problem("stack", "stack", message, suggestion=stack.name, source=source)
