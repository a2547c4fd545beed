"""Reads an account in one region, and writes the policy that fits its reservations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError

from reservoir.adapters.clients import client_of, pricing_region
from reservoir.adapters.ec2.account import running_instances
from reservoir.adapters.ec2.reservations import Ec2ReservationReader
from reservoir.adapters.pricing import AwsPriceReader
from reservoir.adapters.system import SystemClock
from reservoir.core.assessing.assess import LINUX, SHARED, Assessment, Beside, Use, assess
from reservoir.core.model.capacity_reservation import ACTIVE, ReservationKind
from reservoir.manifests.answers.assessment import (
    AssessedBeside,
    AssessedHolder,
    AssessedRegion,
    AssessedReservation,
)
from reservoir.ports.errors import AwsError

_NAME: Final = "reserved"
# as in the examples: to be put on subnets and groups
_TAGGED: Final = [{"tags": {"reservoir": "true"}}]
_ROLE: Final = "reservoir-node"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: a profile (None: the credentials of this process) in a region."""

    profile: str | None
    region: str

    def client(self, service: str) -> Any:
        """Return a client there."""
        region = pricing_region(self.region) if service == "pricing" else self.region
        return client_of(self.profile, service, region)


def look(place: Place, now: datetime, soon: timedelta) -> tuple[AssessedRegion, Assessment]:
    """Read a place, and report what cannot be read. Nothing is changed."""
    try:
        ec2 = place.client("ec2")
        reservations = Ec2ReservationReader(ec2, None).list_visible()
        instances = running_instances(ec2)
    except (AwsError, BotoCoreError) as error:
        return AssessedRegion(
            profile=place.profile, region=place.region, unknown=str(error)
        ), Assessment((), ())
    notes: list[str] = []
    try:
        prices = AwsPriceReader(
            place.client("pricing"), ec2, region=place.region, clock=SystemClock()
        ).on_demand()
    except (AwsError, BotoCoreError) as error:
        prices = {}
        notes.append(f"no price is known: {error}")
    found = assess(reservations, instances, prices, now, soon)
    answer = AssessedRegion(
        profile=place.profile,
        region=place.region,
        reservations=[_reservation(use) for use in found.uses],
        beside=[_beside(each) for each in found.beside],
        notes=notes,
    )
    return answer, found


def _holders(holders: Mapping[str, int]) -> list[AssessedHolder]:
    return [AssessedHolder(holder=name, instances=count) for name, count in holders.items()]


def _reservation(use: Use) -> AssessedReservation:
    found = use.reservation
    return AssessedReservation(
        id=found.id,
        account=found.owner_id,
        kind=found.kind,
        state=found.state,
        instance_type=found.instance_type,
        zone=found.zone,
        total=found.size,
        free=use.free_count,
        idle_micro_usd_per_hour=use.idle_micro_usd_per_hour,
        end_at=found.end_at,
        ends_soon=use.ends_soon,
        holders=_holders(use.holders),
    )


def _beside(each: Beside) -> AssessedBeside:
    return AssessedBeside(
        instance_type=each.instance_type,
        zone=each.zone,
        platform=each.platform,
        instances=each.on_demand_count,
        free=each.free_count,
        fit=each.count,
        micro_usd_per_hour=each.micro_usd_per_hour,
        holders=_holders(each.holders),
    )


def policy_for(found: Assessment) -> list[dict[str, Any]]:
    """Return a pool and a class that use the found reservations; nothing where none can be used.

    The class names reservations by id, so that no other is ever used. Reservations in placement groups, on dedicated
    hardware or of another platform need a class of their own, and are left out.
    """
    usable = [use.reservation for use in found.uses if _is_usable(use)]
    if not usable:
        return []
    has_blocks = any(each.kind is ReservationKind.CAPACITY_BLOCK for each in usable)
    buys = bool(found.beside) or not has_blocks
    requirements = [
        _among(
            "karpenter.sh/capacity-type", ["reserved", *(["on-demand"] if buys else [])]
        ),
        _among(
            "node.kubernetes.io/instance-type",
            sorted({each.instance_type for each in usable}),
        ),
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": _NAME}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": _NAME},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}
        },
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": _NAME},
        "spec": {
            "role": _ROLE,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": _TAGGED,
            "securityGroupSelectorTerms": _TAGGED,
            "capacityReservationSelectorTerms": [
                {"id": each.id} for each in _by_id(usable)
            ],
        },
    }
    return [pool, node_class]


def _is_usable(use: Use) -> bool:
    found = use.reservation
    is_plain = (found.platform, found.tenancy, found.placement_group_arn) == (
        LINUX,
        SHARED,
        None,
    )
    return is_plain and found.state in (ACTIVE, "scheduled") and found.is_launchable


def _by_id(reservations: Sequence[Any]) -> list[Any]:
    return sorted(reservations, key=lambda each: each.id)


def _among(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
