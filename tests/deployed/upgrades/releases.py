"""A fleet whose functions are of two releases: which code each runs, and what is wanted of it."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from infra.app import build_app
from infra.naming import (
    DEPLOYMENT_CONTEXT,
    EMBEDDED_CONTEXT,
    OLDER_INDEXES_CONTEXT,
    function_name,
)
from lab.embedded.reservoir import LEAVE_ASSETS
from lab.embedded.reservoir.assembly import write_settings
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function, Queue, Table, dead_letters_output

TYPE: Final = "m7i.2xlarge"
ZONE: Final = "us-east-1a"
UNITS: Final = 2
NAMESPACE: Final = "upgrade"
FILLS_A_NODE: Final = "6"  # of the eight vCPUs


class Fleet:
    """The story's fleet: which release runs it, and what is wanted of it."""

    def __init__(self, world: World, releases: Mapping[str, bytes]) -> None:
        self.world, self.releases = world, releases
        self.reservation = ""
        self.wanted: dict[str, int] = {}
        self.code: dict[Function, str] = dict.fromkeys(Function, "as it was deployed")

    def make(self, folder: Path) -> None:
        """Make a reservation and a pool that uses it, and buys what else it needs."""
        self.reservation = self.world.reserve("kept", TYPE, ZONE, UNITS, "kept")
        manifests = one_type_pool("kept", TYPE, ["reserved", "on-demand"])
        self.world.apply(write_manifests(folder, manifests))

    def run_by(self, release: str, functions: Iterable[Function] = tuple(Function)) -> None:
        """Put a release's code in the place of what runs; what is under way ends as it began."""
        for function in functions:
            name = function_name(self.world.output(DEPLOYMENT), function)
            changed = self.world.aws.client("lambda").update_function_code(
                FunctionName=name, ZipFile=self.releases[release]
            )
            before, self.code[function] = self.code[function], changed["CodeSha256"]
            assert self.code[function] != before, "another release runs from now on"

    def submit(
        self, name: str, replicas: int, generation: int = 1, cpu: str = FILLS_A_NODE
    ) -> dict[str, Any]:
        """Ask for replicas, which usually fill a node each; return the message."""
        self.wanted[name] = replicas
        return self._send(
            {"action": "submit", "workload": workload(name, replicas, generation, cpu)}
        )

    def withdraw(self, name: str, generation: int = 1) -> dict[str, Any]:
        """Ask for nothing more; return the message."""
        del self.wanted[name]
        return self._send({"action": "withdraw", "workload": workload(name, 0, generation)})

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        self.world.send(message)
        return message

    def settle(self) -> set[str]:
        """Wait until everything that is wanted runs, on a node each, and nothing else; return the instances."""
        count = sum(self.wanted.values())
        self.world.until(
            f"{count} run",
            lambda seen: len(seen.live("running")) == count == len(seen.live()),
        )
        return self.instances()

    def instances(self) -> set[str]:
        """Return the ids of the instances that run or are about to."""
        return {instance.id for instance in self.world.look().live()}

    def dead_letters(self) -> list[str]:
        """Say what nobody could work on."""
        sqs, found = self.world.aws.client("sqs"), []
        for queue in Queue:
            url = self.world.reservoir.outputs[dead_letters_output(queue)]
            letters = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0).get(
                "Messages", []
            )
            found += [f"a dead letter of {queue.name}: {it['Body']}" for it in letters]
        return found

    def indexes(self, table: Table) -> set[str]:
        """Return the names of a table's indexes, as they are."""
        found = self.world.aws.client("dynamodb").describe_table(
            TableName=self.world.output(table)
        )["Table"]
        return {index["IndexName"] for index in found["GlobalSecondaryIndexes"]}

    def rows(self, table: Table, listed: str | None = None) -> list[dict[str, Any]]:
        """Return a table's rows, or those under a listing key."""
        pages = (
            self.world.aws.client("dynamodb")
            .get_paginator("scan")
            .paginate(TableName=self.world.output(table))
        )
        found = [row for page in pages for row in page["Items"]]
        return [
            row for row in found if listed is None or row.get("listing") == {"S": listed}
        ]


def assembly_for_both(folder: Path) -> Path:
    """Synthesise this release with the indexes that the one before reads, too, as an update begins; return where."""
    context = {
        DEPLOYMENT_CONTEXT: str(write_settings(folder / "settings", {})),
        EMBEDDED_CONTEXT: True,
        OLDER_INDEXES_CONTEXT: True,
        **LEAVE_ASSETS,
    }
    assembly = folder / "assembly"
    build_app(outdir=assembly, context=context, is_validated=False).synth()
    return assembly


def workload(
    name: str, replicas: int, generation: int, cpu: str = FILLS_A_NODE
) -> dict[str, Any]:
    """Return a workload for the fleet's pool."""
    requests, where = (
        {"cpu": cpu, "memory": "10Gi"},
        {"story": "kept", "topology.kubernetes.io/zone": ZONE},
    )
    return workload_manifest(
        f"{NAMESPACE}/{name}", replicas, requests, generation=generation, nodeSelector=where
    )


def packages_of(root: Path) -> tuple[Path, ...]:
    """Return the folders that the release there is made of: up to 0.2.0 the product was a package called ``shared``."""
    product = root / "shared" / "reservoir"
    return (root / "functions", product if product.is_dir() else root / "shared")


def code_of(root: Path) -> bytes:
    """Return the code asset of the release that lies there."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in packages_of(root):
            for path in sorted(package.rglob("*.py")):
                archive.write(path, path.relative_to(package.parent))
    return content.getvalue()


def functions_of(root: Path) -> tuple[Function, ...]:
    """Return the functions that the release that lies there has."""
    return tuple(
        it for it in Function if (root / "functions" / it / "handler.py").is_file()
    )
