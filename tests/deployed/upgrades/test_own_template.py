"""An update from the previous release's own template, by ``make deploy``, with demand on its way in each step.

``test_upgrade.py`` puts one release's code in the place of another's, on one template; here the template changes, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lab.embedded.reservoir import KEPT, DeployedReservoir, Synthesis
from lab.embedded.reservoir.assembly import write_settings
from lab.story.world import World
from reservoir.cli.deployment.account import Account
from reservoir.cli.deployment.connect import deployed
from reservoir.cli.deployment.deploy import Deploy
from reservoir.deployment.deployment import read
from reservoir.names import RELEASE_OUTPUT, VERSION, Table, indexes
from tests.deployed.upgrades.releases import Fleet
from tests.deployment.embedded_cdk import EmbeddedCdk
from tests.upgrades.conftest import previous

__all__ = ["previous"]

pytestmark = pytest.mark.embedded

# the tables of which the releases have different indexes
GROWN = (Table.NODE_CLAIMS, Table.WORKLOADS)


@pytest.fixture(scope="module")
def world(previous: Path) -> Iterator[World]:
    """Deploy the previous release's template; in the end no function may have been denied anything."""
    builds = previous / KEPT.name
    builds.mkdir()
    # its own is among them, while both releases lock the same dependencies
    for layer in KEPT.glob("layer-*"):
        (builds / layer.name).symlink_to(layer)
    with DeployedReservoir(
        print, assembly=Synthesis({}, kept=builds, root=previous).finish()
    ) as reservoir:
        world = World(reservoir)
        yield world
        denials = world.denials()
        print(world.aws.log())  # noqa: T201 - pytest shows it beside a failure
    assert denials == []


@dataclass
class Busy:
    """Implements ``reservoir.cli.deployment.cdk.Cdk``: each step of the update meets demand sent just before."""

    cdk: EmbeddedCdk
    fleet: Fleet
    # the indexes after each step
    seen: list[dict[Table, set[str]]] = field(default_factory=list)

    def __call__(self, command: str, *arguments: str) -> None:
        step = len(self.cdk.calls)
        self.fleet.submit(f"comes-{step}", 2)
        self.fleet.withdraw(f"leaves-{step}")
        self.cdk(command, *arguments)
        self.seen.append({table: self.fleet.indexes(table) for table in GROWN})


def test_the_two_steps_of_an_update_lose_nothing_and_end_nobody(
    world: World, tmp_path: Path
) -> None:
    fleet = Fleet(world, {})
    fleet.make(tmp_path)
    world.discover()
    fleet.submit("stays", 3)  # two units, and one more
    for step in range(2):
        fleet.submit(f"leaves-{step}", 1)
    before = fleet.settle()
    assert world.reservoir.outputs[RELEASE_OUTPUT] != VERSION

    path = write_settings(tmp_path / "settings", {})
    cdk = Busy(EmbeddedCdk(world.aws, path), fleet)
    Deploy(
        read(path),
        Account(world.aws.client),
        partial(deployed, world.aws.client),
        cdk,
        print,
    ).run(())

    assert cdk.cdk.calls == [("deploy", "--context", "olderIndexes=true"), ("deploy",)]
    assert cdk.cdk.outputs[RELEASE_OUTPUT] == VERSION
    for seen, with_older in zip(cdk.seen, (True, False), strict=True):
        assert seen == {
            table: set(indexes(table, with_older=with_older)) for table in GROWN
        }
    # sweeps, passes and a round of the collector
    world.aws.clock.advance(timedelta(minutes=16), coalesce=True)
    fleet.submit("after", 1)
    assert len(before - fleet.settle()) == 2
    drained = {
        place["name"]
        for event in world.events("Node Draining")
        for place in event["workloads"]
    }
    assert drained == {"leaves-0", "leaves-1"}, "nobody else was told to go"
    assert fleet.dead_letters() == []
