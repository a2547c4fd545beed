"""Whether functions in a VPC reach what they call."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from itertools import chain
from typing import Any, Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place
from reservoir.deployment.settings import FunctionNetwork

_CHECK: Final = "vpc"
# What functions call, by the last part of the names of VPC endpoints.
SERVICES: Final = (
    *("dynamodb", "ec2", "events", "iam", "pricing.api", "resource-groups"),
    *("s3", "scheduler", "sqs", "ssm", "sts"),
)
# What functions cannot do without a service that they can do without. Endpoints are made for the first in us-east-1
# alone (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam_vpc_endpoint_create.html), for the second where
# the price list is served (https://aws.amazon.com/about-aws/whats-new/2025/02/aws-price-list-api-privatelink).
_WITHOUT: Final[Mapping[str, str]] = {
    "iam": "classes must name an instanceProfile, and Teams no principals",
    "pricing.api": "nothing is bought on demand",
}
_ANYWHERE: Final = "0.0.0.0/0"
# What a default route may lead to; an interface of Lambda has no public address, which an internet gateway wants.
_WAYS_OUT: Final = (
    *("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "InstanceId"),
    *("VpcPeeringConnectionId", "LocalGatewayId", "CoreNetworkArn"),
)
_HTTPS: Final = 443
_Shown = Mapping[str, Any]  # as EC2 shows it


def vpc(place: Place) -> Iterator[Finding]:
    """Whether subnets and security groups are there, and lead to the services that functions call."""
    network = place.deployment.settings.vpc
    if network is None:
        return
    client = place.clients("ec2")
    filters = [{"Name": "subnet-id", "Values": network.subnets}]
    subnets = client.describe_subnets(Filters=filters)["Subnets"]
    missing = {*network.subnets} - {each["SubnetId"] for each in subnets}
    if missing:
        yield _error(
            f"there is no {', '.join(sorted(missing))}", "correct the subnets of vpc"
        )
        return
    vpcs = {each["VpcId"] for each in subnets}
    if len(vpcs) > 1:
        message = f"the subnets are in {len(vpcs)} VPCs, and a function is in one"
        yield _error(message, "name subnets of one VPC")
        return
    (vpc_id,) = vpcs
    yield from _addresses(place, subnets)
    in_vpc = [{"Name": "vpc-id", "Values": [vpc_id]}]
    pages = client.get_paginator("describe_security_groups").paginate(Filters=in_vpc)
    groups = [group for page in pages for group in page["SecurityGroups"]]
    yield from _groups(network, vpc_id, groups)
    yield from _ways(place, client, subnets, groups)


def _addresses(place: Place, subnets: Sequence[_Shown]) -> Iterator[Finding]:
    """Find subnets without an address for the interface that all functions there are going to share."""
    full = [each["SubnetId"] for each in subnets if each["AvailableIpAddressCount"] < 1]
    if full and place.standing() is None:
        message = f"no address is free in {', '.join(full)}, and functions need one in each subnet"
        yield _error(message, "free one, or name other subnets")


def _groups(
    network: FunctionNetwork, vpc_id: str, groups: Sequence[_Shown]
) -> Iterator[Finding]:
    of_functions = [each for each in groups if each["GroupId"] in network.security_groups]
    missing = {*network.security_groups} - {each["GroupId"] for each in of_functions}
    if missing:
        message = f"there is no {', '.join(sorted(missing))} in {vpc_id}"
        yield _error(message, "correct the securityGroups of vpc")
        return
    outward = chain.from_iterable(each["IpPermissionsEgress"] for each in of_functions)
    if not any(map(_is_about_https, outward)):
        message = "no security group of the functions lets HTTPS out"
        yield _error(message, "add a rule for TCP 443, to the endpoints at least")


def _is_about_https(rule: _Shown) -> bool:
    protocol: str = rule["IpProtocol"]
    if protocol == "-1":
        return True
    first, last = int(rule.get("FromPort", 0)), int(rule.get("ToPort", 0))
    return protocol == "tcp" and first <= _HTTPS <= last


def _ways(
    place: Place, client: Any, subnets: Sequence[_Shown], groups: Sequence[_Shown]
) -> Iterator[Finding]:
    in_vpc = [{"Name": "vpc-id", "Values": [subnets[0]["VpcId"]]}]
    tables = client.describe_route_tables(Filters=in_vpc)["RouteTables"]
    endpoints = client.describe_vpc_endpoints(Filters=in_vpc)["VpcEndpoints"]
    for shown in subnets:
        subnet = shown["SubnetId"]
        table = _table_of(subnet, tables)
        if _leads_out(table):
            continue
        serving = [endpoint for endpoint in endpoints if _serves(endpoint, table)]
        needed = [each for each in serving if _is_needed(each, place.region)]
        closed = [each for each in needed if not _lets_in(place, each, shown, groups)]
        if closed:
            names = ", ".join(sorted(each["VpcEndpointId"] for each in closed))
            message = f"security groups of {names} let no HTTPS in from {subnet}"
            yield _error(message, "let TCP 443 in from the functions' security groups")
        lacking = [name for name in SERVICES if not _is_among(serving, name, place.region)]
        advice = "route it to a NAT gateway, or make VPC endpoints with private DNS (docs/deploying.md)"
        if not _WITHOUT.keys() >= set(lacking):
            message = f"from {subnet} nothing leads to {', '.join(lacking)}"
            yield _error(message, advice)
            continue
        for name in lacking:
            message = f"from {subnet} nothing leads to {name}: {_WITHOUT[name]}"
            yield Finding(Severity.WARNING, _CHECK, message, advice)


def _is_needed(endpoint: _Shown, region: str) -> bool:
    """Whether an endpoint leads to a service that functions call."""
    return any(_is_of(endpoint, name, region) for name in SERVICES)


def _lets_in(
    place: Place, endpoint: _Shown, subnet: _Shown, groups: Sequence[_Shown]
) -> bool:
    """Whether an endpoint's security groups let functions in; a gateway has none, and asks for none."""
    if endpoint["VpcEndpointType"] == "Gateway":
        return True
    network = place.deployment.settings.vpc
    of_functions = () if network is None else network.security_groups
    of_endpoint = {each["GroupId"] for each in endpoint["Groups"]}
    inward = chain.from_iterable(
        group["IpPermissions"] for group in groups if group["GroupId"] in of_endpoint
    )
    return any(
        _is_about_https(rule) and _is_from(rule, subnet["CidrBlock"], of_functions)
        for rule in inward
    )


def _is_from(rule: _Shown, block: str, groups: Collection[str]) -> bool:
    """Whether a rule is about one of the groups, or a whole subnet; what is in a prefix list is not looked up."""
    named = {each["GroupId"] for each in rule.get("UserIdGroupPairs", ())}
    if rule.get("PrefixListIds") or named & set(groups):
        return True
    blocks = [IPv4Network(each["CidrIp"]) for each in rule.get("IpRanges", ())]
    return any(IPv4Network(block).subnet_of(each) for each in blocks)


def _table_of(subnet: str, tables: Sequence[_Shown]) -> _Shown:
    """Return the route table of a subnet: its own, or its VPC's main one."""
    main: _Shown = {"RouteTableId": "", "Routes": []}
    for table in tables:
        for association in table["Associations"]:
            if association.get("SubnetId") == subnet:
                return table
            if association.get("Main"):
                main = table
    return main


def _leads_out(table: _Shown) -> bool:
    return any(map(_is_way_out, table["Routes"]))


def _is_way_out(route: _Shown) -> bool:
    if route.get("DestinationCidrBlock") != _ANYWHERE:
        return False
    is_active = route.get("State", "active") == "active"
    return is_active and any(route.get(way) for way in _WAYS_OUT)


def _is_among(endpoints: Sequence[_Shown], service: str, region: str) -> bool:
    return any(_is_of(endpoint, service, region) for endpoint in endpoints)


def _is_of(endpoint: _Shown, service: str, region: str) -> bool:
    """Whether an endpoint is a service's; IAM's and the price list's may be of another region."""
    name: str = endpoint["ServiceName"]
    if service in ("iam", "pricing.api"):
        return name.endswith(f".{service}")
    return name == f"com.amazonaws.{region}.{service}"


def _serves(endpoint: _Shown, table: _Shown) -> bool:
    if endpoint["State"].lower() != "available":
        return False
    if endpoint["VpcEndpointType"] == "Gateway":
        return table["RouteTableId"] in endpoint["RouteTableIds"]
    return bool(endpoint["PrivateDnsEnabled"])


def _error(message: str, advice: str) -> Finding:
    return Finding(Severity.ERROR, _CHECK, message, advice)
