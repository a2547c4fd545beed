"""The daemon: ``python -m integrations.slurm CONFIGURATION``."""

import sys
import threading
from pathlib import Path
from typing import Any

import yaml

from integrations.slurm.daemon import Daemon
from integrations.slurm.nodes import SlurmNodes
from integrations.slurm.slurm import Slurm
from reservoir.client import Client
from reservoir.client.transport import default_clients


def address_of(ec2: Any, instance_id: str) -> str:
    """Return an instance's private address."""
    (reservation,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    return str(reservation["Instances"][0]["PrivateIpAddress"])


def main(file: str) -> None:
    """Run until somebody stops it."""
    config = yaml.safe_load(Path(file).read_text())
    ec2 = default_clients()("ec2")
    nodes = SlurmNodes(
        Client.connect(config["demandQueueUrl"], config["eventsQueueUrl"]),
        Slurm(config["slurmConf"]),
        lambda instance_id: address_of(ec2, instance_id),
        config["namespace"],
        config["pools"],
        float(config["resumeTimeout"]),
    )
    Daemon(nodes, Path(config["spool"]), stopped=threading.Event()).run()


if __name__ == "__main__":
    main(sys.argv[1])
