"""The account of the demo and of ``make play``: what the team already pays for, its policy, and what is on sale."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.assembly import ROOT
from lab.embedded.reservoir.stack import DeployedReservoir, Report
from reservoir.names import Function

EXAMPLES: Final = ROOT / "examples" / "demo"


@dataclass(frozen=True, slots=True)
class Titles:
    """The reservations, by id."""

    by_id: Mapping[str, str]

    def id_of(self, title: str) -> str:
        """Return the id of a reservation."""
        return next(identity for identity, it in self.by_id.items() if it == title)


def set_up(
    reservoir: DeployedReservoir,
    report: Report,
    block_ends_in: timedelta,
    *more_policy: Path,
    block_count: int = 4,
) -> Titles:
    """Make the reservations, apply the policy with the command line, and discover what it selects.

    Raises
    ------
    RuntimeError
        With what was written, when the policy is refused or a discovery fails.
    """
    report("reserving capacity")
    titles = make_reservations(reservoir.aws, block_ends_in, block_count)
    report("applying the policy; discovering reservations")
    applied = subprocess.run(  # noqa: S603 - our own program
        [
            sys.executable,
            "-m",
            "reservoir",
            "apply",
            *_files(EXAMPLES / "policy.yaml", *more_policy),
        ],
        cwd=ROOT,
        env=reservoir.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if applied.returncode:
        message = f"the policy was not applied:\n{applied.stdout}"
        raise RuntimeError(message)
    reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    return titles


def _files(*paths: Path) -> list[str]:
    return [word for path in paths for word in ("-f", str(path))]


def make_reservations(
    aws: EmbeddedAws, block_ends_in: timedelta, block_count: int
) -> Titles:
    """Buy on-demand reservations, a Capacity Block, and an interruptible reservation."""
    ec2 = aws.client("ec2")

    def reserve(instance_type: str, zone: str, count: int, purpose: str | None) -> str:
        tags = [{"Key": "purpose", "Value": purpose}] if purpose else []
        specification = (
            [{"ResourceType": "capacity-reservation", "Tags": tags}] if tags else []
        )
        answer = ec2.create_capacity_reservation(
            InstanceType=instance_type,
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=zone,
            InstanceCount=count,
            InstanceMatchCriteria="targeted",
            TagSpecifications=specification,
        )
        return str(answer["CapacityReservation"]["CapacityReservationId"])

    block = aws.ec2(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1b",
        count=block_count,
        end_in_s=block_ends_in.total_seconds(),
        tags={"purpose": "gpu"},
    )["capacity_reservation_id"]
    lender = reserve("c7i.8xlarge", "us-east-1c", 3, None)
    lent = aws.ec2("create_interruptible", source_reservation_id=lender, count=3)[
        "capacity_reservation_id"
    ]
    ec2.create_tags(Resources=[lent], Tags=[{"Key": "purpose", "Value": "general"}])
    return Titles(
        {
            block: "Capacity Block",
            lent: "interruptible",
            reserve("m7i.4xlarge", "us-east-1a", 6, "general"): "general",
            reserve("r6i.4xlarge", "us-east-1b", 4, "general"): "memory",
            reserve("g5.12xlarge", "us-east-1a", 3, "gpu"): "inference",
        }
    )
