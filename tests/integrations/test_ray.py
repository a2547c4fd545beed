"""Ray's own autoscaler and nodes, on instances of the embedded AWS that run their user data.

A worker is what a real one is: an agent that learns from AWS what its machine is for, and starts Ray there.
"""

import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
import yaml

from lab.demo.observer import Observed
from lab.embedded.reservoir import ROOT
from lab.embedded.reservoir.user_data import AGENT, agent_user_data
from lab.story.nodes import let_nodes_in
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.client import Subscription
from reservoir.names import EVENT_BUS, Queue

RAY: Final = ROOT / ".build/ray/environment/bin"
RUN_NODES = True
pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        not RAY.exists() or shutil.which("pgrep") is None,
        reason="needs Ray, which `make test-integrations` installs where it can, and pgrep",
    ),
]

TYPE: Final = "m5.large"
# Ray's processes keep the true time: the half of them that is not Python would, whatever is done.
RUN: Final = """
[[run]]
workload = "ray/*"
command = ["env", "--unset=PYTHONPATH", "{root}/integrations/ray/node.sh", {arguments}]
ready_after_s = 1
"""
# Two tasks that each need one of a worker's two processors; the second is asked for when the file `second` is there.
PROGRAM: Final = """
import sys, time
from pathlib import Path
import ray

folder = Path(sys.argv[2])
ray.init(address=sys.argv[1], log_to_driver=False)

def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.2)

@ray.remote(num_cpus=1)
def work(name):
    (folder / f"{name}-{ray.get_runtime_context().get_node_id()}").touch()
    wait_for("gate")
    return name

first = work.remote("first")
wait_for("second")
(folder / "results").write_text(" ".join(ray.get([first, work.remote("second")])))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Ray's sockets lie in it, whose paths must be short."""
    made = Path(tempfile.mkdtemp(prefix="ray"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


# How every node of Ray is started; all machines are this one.
OPTIONS: Final = (
    "--node-ip-address=127.0.0.1",
    "--object-store-memory=80000000",
    "--disable-usage-stats",
)


def make_room(world: World, folder: Path, address: str) -> None:
    """Have a block for one machine, and on-demand after it."""
    let_nodes_in(world)
    arguments = ", ".join(f'"{it}"' for it in [address, "--num-cpus=2", *OPTIONS])
    run = RUN.format(root=ROOT, arguments=arguments)
    start = f'PATH="$PATH:{RAY}"\nexec {AGENT}'
    user_data = agent_user_data(run, log_folder=folder / "logs", start=start)
    world.buy_block("block", TYPE, "us-east-1a", 1, "ray", end_in_s=2 * 3600)
    world.apply(
        write_manifests(
            folder,
            one_type_pool("ray", TYPE, ["reserved", "on-demand"], userData=user_data),
        )
    )
    world.discover()


@pytest.fixture
def environment(world: World) -> dict[str, str]:
    """Return in what Ray's processes of the head find AWS, and the provider."""
    return {
        **world.reservoir.environment(),
        "PATH": f"{RAY}:/usr/bin:/bin",
        # of Ray's own Python, where nothing of ours is installed
        "PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": "head",
        "RAY_NODE_TYPE_NAME": "head",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    }


@pytest.fixture
def head(
    world: World,
    folder: Path,
    address: str,
    environment: dict[str, str],
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a head whose autoscaler has the provider, as the README says."""
    make_room(world, folder, address)
    bus = world.output(EVENT_BUS)
    subscription = Subscription.create("ray", bus, ["ray"], make_client=world.aws.client)
    cluster = yaml.safe_load((ROOT / "integrations/ray/cluster.yaml").read_text())
    cluster["provider"] |= {
        "demand_queue_url": world.output(Queue.DEMAND.value),
        "events_queue_url": subscription.events_queue_url,
        "state_file": str(folder / "nodes.json"),
        "head_address": address,
    }
    worker = cluster["available_node_types"]["gpu"]
    worker["resources"] = {"CPU": 2}
    # A machine each.
    worker["node_config"] = {
        "resources": {"requests": {"cpu": "1500m"}},
        "nodeSelector": {"story": "ray"},
    }
    cluster["idle_timeout_minutes"] = 0.1
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    with (folder / "head.log").open("wb") as log:
        started = subprocess.Popen(  # noqa: S603 - Ray's own program
            [
                *(
                    str(RAY / "ray"),
                    "start",
                    "--head",
                    "--block",
                    f"--port={address.partition(':')[2]}",
                ),
                *("--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}"),
                *(f"--autoscaling-config={folder}/cluster.yaml", *OPTIONS),
            ],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    yield started
    started.terminate()
    started.wait()
    Subscription.remove("ray", bus, make_client=world.aws.client)
    for file in [
        folder / "head.log",
        *folder.glob("session_latest/logs/monitor*"),
        *folder.glob("logs/*"),
    ]:
        print(file.name, file.read_text()[-3000:])  # noqa: T201 - pytest shows it beside a failure


def test_nodes_come_for_work_go_when_idle_and_their_work_goes_elsewhere_when_they_drain(
    world: World,
    head: "subprocess.Popen[bytes]",
    folder: Path,
    address: str,
    environment: dict[str, str],
) -> None:
    def until(what: str, holds: Callable[[Observed], bool]) -> None:
        def look(seen: Observed) -> bool:
            assert head.poll() is None, "Ray's head has ended"
            return holds(seen)

        world.until(what, look)

    def where(task: str) -> set[str]:
        """Return the nodes of Ray on which a task began."""
        return {path.name.partition("-")[2] for path in folder.glob(f"{task}-*")}

    (folder / "program.py").write_text(PROGRAM)
    program = subprocess.Popen(  # noqa: S603 - the program above
        [RAY / "python", folder / "program.py", address, folder],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until("a node came for the first task", lambda _: bool(where("first")))
        (reserved,) = where("first")
        assert {it.market for it in world.look().live() if it.instance_type == TYPE} == {
            "reserved"
        }

        block_ends_in(world, 37 * 60)
        until("its node must go", lambda _: bool(world.events("Node Draining")))
        (folder / "second").touch()
        until("a node came for the second task", lambda _: bool(where("second")))
        assert where("second") != {reserved}, "there was room, but the node drained"
        assert where("first") == {reserved}, "what runs is left the time that there is"
        # A notice may be repeated, and a node that is idle meanwhile is told to go as well.
        notices = [
            notice
            for notice in world.events("Node Draining")
            if "capacityReservationId" in notice["node"]
        ]
        (deadline,) = {notice["deadline"] for notice in notices}
        world.aws.clock.advance(datetime.fromisoformat(deadline) - world.now())
        until("the first task began anew", lambda _: len(where("first")) == 2)
        assert where("first") - {reserved} == where("second")
        assert {it.market for it in world.look().live() if it.instance_type == TYPE} == {
            "on-demand"
        }

        (folder / "gate").touch()
        until("both tasks ended", lambda _: (folder / "results").exists())
        assert (folder / "results").read_text() == "first second"
        until(
            "the idle node is gone",
            lambda it: not [one for one in it.live() if one.instance_type == TYPE],
        )
        until(
            "both nodes are forgotten",
            lambda _: json.loads((folder / "nodes.json").read_text()) == {},
        )
    finally:
        program.kill()
        program.wait()


def block_ends_in(world: World, seconds: float) -> None:
    """Let the time come at which the block has so long left."""
    (block,) = world.aws.client("ec2").describe_capacity_reservations(
        Filters=[{"Name": "tag:purpose", "Values": ["ray"]}]
    )["CapacityReservations"]
    world.aws.clock.advance((block["EndDate"] - world.now()) - timedelta(seconds=seconds))
