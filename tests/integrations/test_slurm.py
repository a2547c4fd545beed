"""Slurm's own daemons on nodes that Reservoir launches on the embedded AWS.

A machine is played by a slurmd in a PID namespace with a spool of its own: it starts when the node is told its address,
and everything on it dies with its instance. A job that outlived its machine would be a duplicate when it begins anew.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from integrations.slurm.daemon import Daemon
from integrations.slurm.nodes import SlurmNodes
from integrations.slurm.slurm import Slurm, SlurmError
from lab.embedded.reservoir import ROOT
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.client import Client, Subscription
from reservoir.names import EVENT_BUS, Queue

MACHINE: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def has_slurm() -> bool:
    """Whether Slurm's daemons are here, and may be run as on machines of their own."""
    if (
        shutil.which("slurmctld") is None
        or shutil.which("slurmd") is None
        or os.geteuid() != 0
    ):
        return False
    return (
        subprocess.run([*MACHINE, "true"], check=False, capture_output=True).returncode == 0  # noqa: S603 - no input
    )


pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        not has_slurm(),
        reason="needs root, PID namespaces, and Debian's packages slurmctld and slurmd",
    ),
]

NODES: Final = 4
README: Final = ROOT / "integrations" / "slurm" / "README.md"
MPI: Final = ROOT / "tests" / "integrations" / "mpi_sum.py"
LIMIT_S: Final = 300.0
CONF: Final = """
ClusterName=reservoir
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={spools}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
CommunicationParameters=NoAddrCache
PrivateData=cloud
JobRequeue=1
ResumeProgram={folder}/resume
SuspendProgram={folder}/suspend
ResumeFailProgram={folder}/resume_fail
ResumeTimeout=200
SuspendTimeout=5
SuspendTime=10
SchedulerParameters=sched_interval=2,bf_interval=2
{nodes}
PartitionName=train Nodes=train-[1-{count}] Default=YES State=UP
PartitionName=scarce Nodes=scarce-1 State=UP ResumeTimeout=30
"""


class Machines(Slurm):
    """Slurm with machines: a slurmd starts where a node is placed, as the image of a real node would start it."""

    def __init__(self, conf: Path, spools: Path) -> None:
        super().__init__(str(conf))
        self.spools: Path  # with a folder for each node that has a machine
        object.__setattr__(self, "spools", spools)
        # by node: the claim, and its slurmd
        self.daemons: dict[str, tuple[str, subprocess.Popen[bytes]]]
        object.__setattr__(self, "daemons", {})

    def place(self, node: str, address: str, features: Collection[str]) -> None:
        super().place(node, address, features)
        super().update(node, "NodeHostName=localhost")  # all machines are this one
        (claim,) = (feature for feature in features if feature.startswith("nc-"))
        if node in self.daemons and self.daemons[node][0] == claim:
            return
        self.end(node)
        (self.spools / node).mkdir()
        command = [*MACHINE, "slurmd", "-b", "-D", "-N", node, "-f", self.conf]
        daemon = subprocess.Popen(  # noqa: S603 - Slurm's own daemon
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.daemons[node] = (claim, daemon)

    def update(self, node: str, *changes: str) -> None:
        super().update(node, *changes)
        if "State=POWER_DOWN_FORCE" in changes:  # its instance ends now, as it was released
            self.end(node)

    def end(self, node: str) -> None:
        """End a node's machine, if it has one."""
        _, daemon = self.daemons.pop(node, ("", None))
        if daemon is not None:
            daemon.kill()
            daemon.wait()
            shutil.rmtree(self.spools / node)


@pytest.fixture
def spools() -> Iterator[Path]:
    """Return a folder with a short name: slurmd makes a socket there, whose name may have 107 characters."""
    with TemporaryDirectory(prefix="slurmd-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def slurm(tmp_path: Path, spools: Path) -> Iterator[Machines]:
    folder, spool = tmp_path, tmp_path / "requests"
    spool.mkdir()
    (folder / "state").mkdir()
    for verb in ("resume", "suspend", "resume_fail"):
        program = folder / verb
        program.write_text(
            f"#!/bin/sh\nRESERVOIR_SLURM_SPOOL={spool}; export RESERVOIR_SLURM_SPOOL\n"
            + (ROOT / "integrations/slurm/request.sh").read_text().partition("\n")[2]
        )
        program.chmod(0o755)
    names = [*(f"train-{number}" for number in range(1, NODES + 1)), "scarce-1"]
    own, *ports = free_ports(1 + len(names))
    lines = []
    for name, port in zip(names, ports, strict=True):
        where = f"NodeHostName=localhost NodeAddr=127.0.0.1 Port={port}"
        lines.append(f"NodeName={name} {where} CPUs=1 RealMemory=100 State=CLOUD")
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(
            folder=folder, spools=spools, port=own, nodes="\n".join(lines), count=NODES
        )
    )
    machines = Machines(conf, spools)
    controller = subprocess.Popen(  # noqa: S603 - Slurm's own daemon
        ["slurmctld", "-D", "-c", "-f", str(conf)],  # noqa: S607 - it is on the PATH
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield machines
    for name in list(machines.daemons):
        machines.end(name)
    controller.terminate()
    controller.wait()
    print((folder / "slurmctld.log").read_text()[-4000:])  # noqa: T201 - pytest shows it beside a failure


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for it in sockets:
        it.bind(("127.0.0.1", 0))
    found = [int(it.getsockname()[1]) for it in sockets]
    for it in sockets:
        it.close()
    return found


def until(what: str, holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit, what
        time.sleep(0.5)


def is_up(slurm: Slurm) -> bool:
    try:
        return "train" in slurm.run("sinfo", "--noheader")
    except SlurmError:
        return False


def batch(slurm: Slurm, folder: Path, script: str, *options: str) -> str:
    """Submit a job; return its id."""
    file = folder / "job.sh"
    file.write_text("#!/bin/sh\n" + script)
    return slurm.run(
        "sbatch",
        "--parsable",
        "--chdir",
        str(folder),
        "--output=/dev/null",
        *options,
        str(file),
    ).strip()


def together(folder: Path) -> str:
    """Return the line of a job whose ranks have to find each other: with Open MPI where it is."""
    if shutil.which("orted") is None:
        return f"srun sh -c 'touch {folder}/$SLURM_PROCID-$SLURM_NTASKS-1'\n"
    return f"mpirun --allow-run-as-root {sys.executable} {MPI} {folder}\n"


def comments(slurm: Slurm) -> str:
    """Return what ``squeue`` shows of the jobs, to somebody who has done as the README says."""
    (shown,) = re.findall(r"SQUEUE_FORMAT2=(\S+)", README.read_text())
    return slurm.run("env", f"SQUEUE_FORMAT2={shown}", "squeue", "--noheader")


def markets(world: World) -> set[str]:
    """Return what the machines there are were bought as."""
    return {it.market for it in world.look().live() if it.instance_type == "m5.large"}


def test_an_array_and_a_gang_run_to_their_end_though_a_block_is_drained(
    world: World, slurm: Machines, tmp_path: Path
) -> None:
    world.buy_block("block", "m5.large", "us-east-1a", NODES, "slurm", end_in_s=3600)
    pool = one_type_pool("slurm", "m5.large", ["reserved", "on-demand"])
    world.apply(write_manifests(tmp_path, pool))
    world.discover()
    bus = world.output(EVENT_BUS)
    subscription = Subscription.create(
        "slurm", bus, ["slurm"], make_client=world.aws.client
    )
    client = Client.connect(
        world.output(Queue.DEMAND.value),
        subscription.events_queue_url,
        make_client=world.aws.client,
    )
    of_story = {"story": "slurm"}
    # a machine each
    spec: dict[str, Any] = {
        "resources": {"requests": {"cpu": "1500m"}},
        "nodeSelector": of_story,
    }
    pools = {
        "train": spec,
        "scarce": {
            **spec,
            "nodeSelector": {"karpenter.sh/capacity-type": "reserved", **of_story},
        },
    }
    nodes = SlurmNodes(
        client, slurm, lambda _: "127.0.0.1", "slurm", pools, resume_timeout_s=150
    )
    stopped = threading.Event()
    daemon = threading.Thread(
        target=Daemon(nodes, tmp_path / "requests", stopped=stopped).run
    )
    until("slurmctld answers", lambda: is_up(slurm))
    daemon.start()
    try:
        done = tmp_path / "done"
        done.mkdir()
        gate = tmp_path / "gate"
        # Each waits until the drain has begun, so that what runs then is cut short and has to begin anew.
        wait = f"touch {done}/began-$SLURM_JOB_ID-$SLURM_RESTART_COUNT; while [ ! -e {gate} ]; do sleep 0.2; done\n"
        array = batch(
            slurm,
            tmp_path,
            wait + f"touch {done}/array-$SLURM_ARRAY_TASK_ID\n",
            "--array=1-2",
        )
        batch(slurm, tmp_path, wait + together(done) + f"touch {done}/gang\n", "--nodes=2")
        until("all run", lambda: len(list(done.glob("began-*"))) == 3)
        until("each is told on what", lambda: comments(slurm).count("is reserved cr-") >= 3)
        assert {"reserved", "m5.large"} <= slurm.features("train-1")
        assert markets(world) == {"reserved"}

        late = batch(slurm, tmp_path, "true\n", "--partition=scarce")  # the block is full
        until(
            "it says why it waits",
            lambda: "slurm/scarce-1 has no place yet" in comments(slurm),
        )
        world.aws.clock.advance(timedelta(minutes=25))
        until(
            "all were requeued",
            lambda: len({it.name.split("-")[1] for it in done.glob("began-*-?*")}) == 3,
        )
        until("they run on what comes after", lambda: markets(world) == {"on-demand"})
        until(
            "Slurm has given up on the node",
            lambda: client.status("slurm/scarce-1").withdrawn,
        )
        assert (
            slurm.run("squeue", "--noheader", f"--jobs={late}", "--format=%T").strip()
            == "PENDING"
        )
        slurm.run("scancel", late)

        gate.touch()
        until(
            "everything has ended", lambda: slurm.run("squeue", "--noheader").strip() == ""
        )
        ended = {path.name for path in done.iterdir()}
        assert {"array-1", "array-2", "gang", "0-2-1", "1-2-1"} <= ended, (array, ended)
        until("the idle nodes are gone", lambda: markets(world) == set())
    finally:
        stopped.set()
        daemon.join()
        Subscription.remove("slurm", bus, make_client=world.aws.client)
