"""What a CreateFleet request asks for, checked: its pools, its targets, its options."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from lab.embedded.ec2.account.state import (
    LaunchSpec,
    LaunchTemplate,
    LaunchTemplateVersion,
    Market,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_combination, invalid_value
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.instances import launch_templates
from lab.embedded.ec2.instances.launch_specs import TAGGABLE_AT_LAUNCH, resolve

Parameters = dict[str, Any]

CONFIG_LIMIT: Final = 50
TARGET_LIMIT: Final = 10_000
USE_RESERVATIONS_FIRST: Final = "use-capacity-reservations-first"

# Priority of an override that names none: after all that do.
_LAST: Final = float("inf")


@dataclass(frozen=True)
class Pool:
    """One (launch template, override) pair; ``spec`` or the reason why there is none."""

    index: int
    template: LaunchTemplate
    version: LaunchTemplateVersion
    override: dict[str, Any]
    spec: LaunchSpec | None
    refusal: Ec2Error | None

    @property
    def weight(self) -> Fraction:
        """Units of target capacity that one instance counts for."""
        return Fraction(self.override.get("WeightedCapacity", 1))

    @property
    def priority(self) -> float:
        """Rank in prioritised strategies; the lowest number goes first."""
        priority: float = self.override.get("Priority", _LAST)
        return priority


@dataclass(frozen=True)
class FleetRequest:
    """A checked request. Targets are in units of capacity, which are instances unless overrides have weights."""

    pools: tuple[Pool, ...]
    default_market: str
    total_units: int
    on_demand_units: int
    spot_units: int
    on_demand_options: dict[str, Any]
    spot_options: dict[str, Any]
    reserved_options: dict[str, Any]
    fleet_tags: dict[str, str]
    raw: Parameters

    @property
    def uses_reservations_first(self) -> bool:
        """Whether Fleet shall fill reservations before it buys on-demand capacity."""
        options: dict[str, Any] = self.on_demand_options.get(
            "CapacityReservationOptions", {}
        )
        return options.get("UsageStrategy") == USE_RESERVATIONS_FIRST


def parse(world: World, parameters: Parameters) -> FleetRequest:
    """Return the checked request.

    Raises
    ------
    Ec2Error
        For what makes EC2 refuse the whole request; what concerns one pool only is kept in that pool.
    """
    if parameters.get("Type", "maintain") != "instant":
        raise Ec2Error(
            "UnsupportedOperation", "Only fleets of the type 'instant' are emulated."
        )
    tags = from_specifications(
        parameters.get("TagSpecifications"), ("fleet", *TAGGABLE_AT_LAUNCH)
    )
    target = parameters["TargetCapacitySpecification"]
    request = FleetRequest(
        pools=tuple(_pools(world, parameters["LaunchTemplateConfigs"], tags)),
        default_market=target.get("DefaultTargetCapacityType", "on-demand"),
        total_units=target["TotalTargetCapacity"],
        on_demand_units=target.get("OnDemandTargetCapacity", 0),
        spot_units=target.get("SpotTargetCapacity", 0),
        on_demand_options=parameters.get("OnDemandOptions", {}),
        spot_options=parameters.get("SpotOptions", {}),
        reserved_options=parameters.get("ReservedCapacityOptions", {}),
        fleet_tags=tags.get("fleet", {}),
        raw=parameters,
    )
    _check_targets(request)
    _check_minimum(request.on_demand_options)
    _check_minimum(request.spot_options)
    _check_market(request)
    _refuse_duplicates(request.pools)
    return request


def _pools(
    world: World, configs: list[dict[str, Any]], tags: dict[str, dict[str, str]]
) -> Iterator[Pool]:
    if not 1 <= len(configs) <= CONFIG_LIMIT:
        raise invalid_value(
            f"A fleet needs between 1 and {CONFIG_LIMIT} launch template configurations."
        )
    index = 0
    for config in configs:
        wanted = config.get("LaunchTemplateSpecification", {})
        template = launch_templates.find(
            world, wanted.get("LaunchTemplateId"), wanted.get("LaunchTemplateName")
        )
        if not wanted.get("Version"):
            raise Ec2Error(
                "MissingParameter",
                "A launch template specification of a fleet must name a version.",
            )
        version = launch_templates.version_of(template, wanted["Version"])
        for override in config.get("Overrides") or [{}]:
            yield _pool(world, index, template, version, override, tags)
            index += 1


def _pool(
    world: World,
    index: int,
    template: LaunchTemplate,
    version: LaunchTemplateVersion,
    override: dict[str, Any],
    tags: dict[str, dict[str, str]],
) -> Pool:
    if override.get("WeightedCapacity", 1) <= 0:
        raise invalid_value("A weighted capacity must be positive.")
    system = {
        "aws:ec2launchtemplate:id": template.template_id,
        "aws:ec2launchtemplate:version": str(version.number),
    }
    extra = tags | {"instance": tags.get("instance", {}) | system}
    try:
        spec = resolve(world, version.data | override, extra_tags=extra)
    except Ec2Error as error:
        return Pool(index, template, version, override, None, error)
    return Pool(index, template, version, override, spec, None)


def _check_targets(request: FleetRequest) -> None:
    if not 1 <= request.total_units <= TARGET_LIMIT:
        raise invalid_value(
            f"The total target capacity must be between 1 and {TARGET_LIMIT}."
        )
    if request.on_demand_units + request.spot_units > request.total_units:
        raise invalid_value(
            "On-demand and Spot target capacity together exceed the total target capacity."
        )


def _check_minimum(options: dict[str, Any]) -> None:
    minimum = options.get("MinTargetCapacity")
    if minimum is None:
        return
    if not (options.get("SingleInstanceType") or options.get("SingleAvailabilityZone")):
        raise invalid_combination(
            "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone."
        )
    if not 1 <= minimum <= 1000:
        raise invalid_value("MinTargetCapacity must be between 1 and 1000.")


def _check_market(request: FleetRequest) -> None:
    split = request.on_demand_units or request.spot_units
    reservations_first = "CapacityReservationOptions" in request.on_demand_options
    if request.reserved_options and request.default_market != "reserved-capacity":
        raise invalid_combination(
            "ReservedCapacityOptions requires the default target capacity type 'reserved-capacity'."
        )
    if request.default_market in {"capacity-block", "reserved-capacity"}:
        if split:
            raise invalid_combination(
                f"OnDemandTargetCapacity and SpotTargetCapacity cannot be used with {request.default_market}."
            )
        if reservations_first:
            raise invalid_combination(
                f"CapacityReservationOptions cannot be used with {request.default_market}."
            )
    if request.default_market == "capacity-block":
        _check_blocks(request)
    if request.default_market == "reserved-capacity":
        _check_reserved(request.reserved_options)
    if request.default_market in {"on-demand", "spot"}:
        _refuse_template_markets(request)


def _check_blocks(request: FleetRequest) -> None:
    specs = [p.spec for p in request.pools if p.spec]
    if any(s.market is not Market.CAPACITY_BLOCK for s in specs):
        raise invalid_combination(
            "Every launch template of a capacity-block fleet must have the market type capacity-block."
        )
    if len({(s.target.reservation_id, s.target.group_arn) for s in specs}) > 1:
        raise invalid_combination("A capacity-block fleet can use one Capacity Block only.")


def _check_reserved(options: dict[str, Any]) -> None:
    if not options.get("ReservationTypes"):
        raise Ec2Error(
            "MissingParameter", "ReservedCapacityOptions must name the reservation types."
        )
    target = options.get("CapacityReservationTarget", {})
    if target.get("CapacityReservationIds") and target.get(
        "CapacityReservationResourceGroupArns"
    ):
        raise invalid_combination(
            "Specify capacity reservation ids or resource group ARNs, not both."
        )


def _refuse_template_markets(request: FleetRequest) -> None:
    for pool in request.pools:
        if pool.spec is not None and pool.spec.market in {
            Market.CAPACITY_BLOCK,
            Market.INTERRUPTIBLE,
        }:
            raise invalid_combination(
                f"The market type {pool.spec.market} of launch template {pool.template.template_id} cannot be used "
                f"with the target capacity type {request.default_market}."
            )


def _refuse_duplicates(pools: tuple[Pool, ...]) -> None:
    """Refuse two overrides of one type and zone, whatever their templates or subnets."""
    seen: set[tuple[str, str]] = set()
    for pool in pools:
        if pool.spec is None:
            continue
        key = (pool.spec.instance_type, pool.spec.zone.name)
        if key in seen:
            raise Ec2Error(
                "InvalidFleetConfig",
                "The fleet configuration contains duplicate instance pools.",
            )
        seen.add(key)
