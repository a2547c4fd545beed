"""Functions in a VPC: what Lambda asks before it makes one, and which services one reaches from there.

Lambda's guides: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html for the permissions and
https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc-internet.html for the way out: an interface of Lambda has
no public address, so that an internet gateway is none. An endpoint without security groups has the default one of its
VPC, which lets in its own members alone: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html.
 Where several subnets are named, Lambda may use any of them.
Functions with the same subnet and security groups share an interface, which takes an address of the subnet:
https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-enis
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from itertools import chain
from typing import Any, Final

from ministack.core import responses
from ministack.services import lambda_svc
from ministack.services.cloudformation import provisioners

from lab.embedded.ec2 import Ec2Emulation
from lab.embedded.functions.roles import role_allows
from lab.embedded.limits.quotas import QuotaError, checked

NEEDED: Final = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
)
SUBNETS_MAX: Final = 16
SECURITY_GROUPS_MAX: Final = 5
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
INTERFACES_OF_VPC: Final = 500
_ANYWHERE: Final = "0.0.0.0/0"
_HTTPS: Final = 443
# The names of endpoints are those of services but for these.
_NAMES: Final = {"pricing": "pricing.api"}
_GLOBAL: Final = frozenset({"iam"})


class FunctionNetworks:
    """The VPCs of functions, as EC2 has them."""

    def __init__(self, ec2: Ec2Emulation, account_id: str, region: str) -> None:
        self._ec2 = ec2
        self._account_id = account_id
        self._region = region

    @property
    def _backend(self) -> Any:
        return self._ec2.world.moto.backend

    def install(self) -> None:
        """Ask of each function that is to be in a VPC, at the API and as a resource of a stack."""
        create, update = lambda_svc._create_function, lambda_svc._update_config

        def checked_create(data: dict[str, Any]) -> Any:
            refused = self.refusal(data.get("Role", ""), data.get("VpcConfig") or {})
            return create(data) if refused is None else _invalid(refused)

        def checked_update(name: str, data: dict[str, Any]) -> Any:
            function = lambda_svc._functions.get(name) or {"config": {}}
            role = data.get("Role") or function["config"].get("Role", "")
            refused = self.refusal(role, data.get("VpcConfig") or {})
            return update(name, data) if refused is None else _invalid(refused)

        lambda_svc._create_function = checked_create
        lambda_svc._update_config = checked_update

        def check(properties: Mapping[str, Any]) -> None:
            refused = self.refusal(
                properties.get("Role", ""), properties.get("VpcConfig") or {}
            )
            if refused is not None:
                raise QuotaError(refused)

        _keep_network_of_resources()
        checked("AWS::Lambda::Function", check)

    def refusal(self, role_arn: str, network: Mapping[str, Any]) -> str | None:
        """Say why Lambda makes no function with that role in those subnets."""
        subnets = network.get("SubnetIds") or []
        groups = network.get("SecurityGroupIds") or []
        if not subnets:
            return None
        if len(subnets) > SUBNETS_MAX or len(groups) > SECURITY_GROUPS_MAX:
            return (
                "1 validation error detected: Value at 'vpcConfig' failed to satisfy constraint: Member must have"
                f" length less than or equal to {SUBNETS_MAX} (subnetIds), {SECURITY_GROUPS_MAX} (securityGroupIds)"
            )
        for action in NEEDED:
            if not all(
                role_allows(role_arn, action, arn, {})
                for arn in self._arns(action, subnets, groups)
            ):
                name = action.partition(":")[2]
                return f"The provided execution role does not have permissions to call {name} on EC2"
        return self._missing(subnets, groups)

    def _arns(self, action: str, subnets: list[str], groups: list[str]) -> list[str]:
        """Return what an action is checked on: a new interface also on where it is put."""
        if action.startswith("ec2:Describe"):
            return ["*"]
        prefix = f"arn:aws:ec2:{self._region}:{self._account_id}:"
        named = [f"{prefix}network-interface/*"]
        if action == "ec2:CreateNetworkInterface":
            named += [f"{prefix}subnet/{each}" for each in subnets]
            named += [f"{prefix}security-group/{each}" for each in groups]
        return named

    def _missing(self, subnets: list[str], groups: list[str]) -> str | None:
        vpcs = {each: self._vpc_of_subnet(each) for each in subnets}
        for subnet, vpc in vpcs.items():
            if vpc is None:
                return (
                    "Error occurred while DescribeSubnets. EC2 Error Code: InvalidSubnetID.NotFound. EC2 Error Message:"
                    f" The subnet ID '{subnet}' does not exist"
                )
        for group in groups:
            found = self._backend.get_security_group_from_id(group)
            if found is None or found.vpc_id not in vpcs.values():
                return (
                    "Error occurred while DescribeSecurityGroups. EC2 Error Code: InvalidGroup.NotFound. EC2 Error"
                    f" Message: The security group '{group}' does not exist"
                )
        if len(set(vpcs.values())) > 1:
            return "The subnets of a function must be in the same VPC"
        return self._no_room(subnets, groups)

    def _no_room(self, subnets: list[str], groups: list[str]) -> str | None:
        """Say why Lambda can make no interface that a function needs and no other function has."""
        used = self._interfaces()
        wanted = {(subnet, frozenset(groups)) for subnet in subnets} - used
        vpc = self._vpc_of_subnet(subnets[0])
        of_vpc = {each for each in used if self._vpc_of_subnet(each[0]) == vpc}
        if len(of_vpc | wanted) > INTERFACES_OF_VPC:
            # https://repost.aws/knowledge-center/lambda-hyperplane-vpc
            return "You have exceeded the maximum limit for Lambda HyperPlane ENIs for your VPC."
        for subnet, _ in wanted:
            in_subnet = sum(each == subnet for each, _ in used)
            addresses = self._backend.get_subnet(subnet).available_ip_address_count
            if in_subnet >= addresses:
                return (
                    "Lambda was not able to set up VPC access for the Lambda function because one or more configured"
                    " subnets has no available IP addresses. (StateReasonCode: SubnetOutOfIPAddresses)"
                )
        return None

    def _interfaces(self) -> set[tuple[str, frozenset[str]]]:
        """Return (subnet, security groups) of the interfaces that the functions share."""
        found: set[tuple[str, frozenset[str]]] = set()
        for function in list(lambda_svc._functions.values()):
            network = function["config"].get("VpcConfig") or {}
            groups = frozenset(network.get("SecurityGroupIds") or ())
            found |= {(subnet, groups) for subnet in network.get("SubnetIds") or ()}
        return found

    def _vpc_of_subnet(self, subnet_id: str) -> str | None:
        for subnets in self._backend.subnets.values():
            if subnet_id in subnets:
                return str(subnets[subnet_id].vpc_id)
        return None

    def reaches(self, function_name: str, service: str) -> bool:
        """Whether a function's calls reach a service: from all of its subnets, by a way out or an endpoint."""
        function = lambda_svc._functions.get(function_name)
        network = {} if function is None else function["config"].get("VpcConfig") or {}
        groups = frozenset(network.get("SecurityGroupIds") or ())
        return all(
            self._lets_out(groups)
            and (self._leads_out(subnet) or self._has_endpoint(subnet, groups, service))
            for subnet in network.get("SubnetIds") or ()
        )

    def _tables(self, subnet_id: str) -> Iterator[Any]:
        """Yield the route table of a subnet: its own, or its VPC's main one."""
        vpc = self._vpc_of_subnet(subnet_id)
        tables = [
            each for each in self._backend.describe_route_tables() if each.vpc_id == vpc
        ]
        own = [each for each in tables if _is_of_subnet(each, subnet_id)]
        yield from own or (each for each in tables if each.main_association_id)

    def _leads_out(self, subnet_id: str) -> bool:
        routes = chain.from_iterable(table.routes for table in self._tables(subnet_id))
        return any(
            route.destination_cidr_block == _ANYWHERE
            and (route.nat_gateway or route.transit_gateway or route.interface)
            for route in routes
        )

    def _lets_out(self, groups: frozenset[str]) -> bool:
        rules = (
            self._backend.get_security_group_from_id(each).egress_rules for each in groups
        )
        return any(map(_is_about_https, chain.from_iterable(rules)))

    def _lets_in(self, endpoint: Any, subnet_id: str, groups: frozenset[str]) -> bool:
        """Whether the security groups of an endpoint let functions in."""
        default = self._backend.get_security_group_from_name("default", endpoint.vpc_id)
        own = set(endpoint.security_group_ids) or {default.id}
        if default.id in own & groups:
            return True
        block = IPv4Network(self._backend.get_subnet(subnet_id).cidr_block)
        rules = (
            self._backend.get_security_group_from_id(each).ingress_rules for each in own
        )
        return any(
            _is_about_https(rule) and _is_from(rule, block, groups)
            for rule in chain.from_iterable(rules)
        )

    def _has_endpoint(self, subnet_id: str, groups: frozenset[str], service: str) -> bool:
        name = _NAMES.get(service, service)
        wanted = f"com.amazonaws.{name if service in _GLOBAL else f'{self._region}.{name}'}"
        vpc = self._vpc_of_subnet(subnet_id)
        tables = {table.id for table in self._tables(subnet_id)}
        for endpoint in self._backend.describe_vpc_endpoints(vpc_end_point_ids=None):
            named = (endpoint.service_name, endpoint.vpc_id, endpoint.state)
            if named != (wanted, vpc, "available"):
                continue
            if endpoint.vpc_endpoint_type == "Gateway":
                if tables & set(endpoint.route_table_ids or ()):
                    return True
            elif endpoint.private_dns_enabled and self._lets_in(
                endpoint, subnet_id, groups
            ):
                return True
        return False


def _is_about_https(rule: Any) -> bool:
    if rule.ip_protocol == "-1":
        return True
    return bool(
        rule.ip_protocol == "tcp" and int(rule.from_port) <= _HTTPS <= int(rule.to_port)
    )


def _is_from(rule: Any, block: IPv4Network, groups: frozenset[str]) -> bool:
    """Whether a rule is about one of the groups, or a whole subnet."""
    if rule.source_group.get("GroupId") in groups:
        return True
    named = rule.ip_range.get("CidrIp")
    return named is not None and block.subnet_of(IPv4Network(named))


def _keep_network_of_resources() -> None:
    # MiniStack makes the functions of stacks without their network.
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]
    create, update = handlers["create"], handlers["update"]

    def with_network(made: Any, properties: Mapping[str, Any]) -> Any:
        lambda_svc._functions[made[0]]["config"]["VpcConfig"] = dict(
            properties.get("VpcConfig") or {}
        )
        return made

    provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"] = {
        **handlers,
        "create": lambda logical_id, properties, *rest: with_network(
            create(logical_id, properties, *rest), properties
        ),
        "update": lambda name, old, new, *rest: with_network(
            update(name, old, new, *rest), new
        ),
    }


def _invalid(message: str) -> Any:
    return responses.error_response_json("InvalidParameterValueException", message, 400)


def _is_of_subnet(table: Any, subnet_id: str) -> bool:
    return any(it.get("SubnetId") == subnet_id for it in table.associations)
