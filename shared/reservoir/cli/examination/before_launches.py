"""What would stop an existing stack from working or launching."""

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, product
from typing import Final

from reservoir.cli import files
from reservoir.cli.examination.account import trail_of
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place
from reservoir.cli.examination.quotas import CODES, limit_of
from reservoir.core.capacity.unavailable_offerings import quota_group
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_TYPE,
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
)
from reservoir.manifests.validate import read_files
from reservoir.ports.errors import AwsError

_SERVICES: Final = ("dynamodb", "events", "lambda", "scheduler", "sqs", "ssm")
_VCPUS_MIN: Final = 8  # what a first node with some room takes


def services(place: Place) -> Iterator[Finding]:
    """Whether the region has the services that the stack is made of."""
    missing = [
        service for service in _SERVICES if not place.is_served(service, place.region)
    ]
    if missing:
        message = f"{place.region} is not known to have {', '.join(missing)}"
        yield Finding(Severity.ERROR, "services", message, "choose another region")


def keys(place: Place) -> Iterator[Finding]:
    """Whether the keys of the settings can be used."""
    client = place.clients("kms")
    for key in place.deployment.settings.kms_keys:
        try:
            found = client.describe_key(KeyId=key)["KeyMetadata"]
        except client.exceptions.NotFoundException:
            yield Finding(
                Severity.ERROR, "keys", f"{key} does not exist", "correct kmsKeys"
            )
            continue
        if found["KeyState"] != "Enabled":
            message = f"{key} is {found['KeyState']}: no instance would start"
            yield Finding(
                Severity.ERROR, "keys", message, "enable it, or take it out of kmsKeys"
            )


def metadata(place: Place) -> Iterator[Finding]:
    """Whether the account's defaults of the metadata service agree with the settings."""
    found = place.clients("ec2").get_instance_metadata_defaults().get("AccountLevel", {})
    enforced = found.get("HttpTokensEnforced") == "enabled"
    if enforced and place.deployment.settings.metadata_http_tokens == "optional":
        message = "the account enforces tokens (IMDSv2), and classes may ask for instances without"
        yield Finding(
            Severity.ERROR, "metadata", message, "set metadataHttpTokens: required"
        )


def quotas(place: Place) -> Iterator[Finding]:
    """Whether the account's quotas let something be launched of what the pools name."""
    pools, _ = _policy(place)
    wanted = set(
        chain.from_iterable(product(_markets(pool), _groups(pool)) for pool in pools)
    )
    client = place.clients("service-quotas")
    for market, group in sorted(wanted):
        limit = limit_of(client, CODES[market].get(group, ()))
        if limit is not None and limit[0] < _VCPUS_MIN:
            vcpus, code = limit
            message = f"the quota of {group} instances on {market} is {vcpus} vCPUs"
            asking = "aws service-quotas request-service-quota-increase --service-code ec2"
            yield Finding(
                Severity.WARNING,
                "quotas",
                message,
                f"ask for more: {asking} --quota-code {code}",
            )


def _markets(pool: NodePool) -> list[CapacityType]:
    markets = (CapacityType.ON_DEMAND, CapacityType.SPOT)
    return [each for each in markets if pool.requirements[CAPACITY_TYPE].has(each.value)]


def _groups(pool: NodePool) -> set[str]:
    """Return the groups of families that the pool names; one that names none can do with what most instances are."""
    named: set[str] = set()
    for key in (INSTANCE_TYPE, INSTANCE_FAMILY):
        requirement = pool.requirements.get(key)
        if requirement is not None and not requirement.complement:
            named |= {quota_group(value) for value in requirement.values}
    return named or {"Standard"}


def classes(place: Place) -> Iterator[Finding]:
    """Whether what the classes select is there, and launches may hand out their roles."""
    environment = place.environment
    for each in _policy(place)[1]:
        yield from _hands_out(place, each)
        yield from _selects(
            each, "subnet", partial(environment.subnets, each.subnet_selector_terms)
        )
        groups = partial(environment.security_group_ids, each.security_group_selector_terms)
        yield from _selects(each, "security group", groups)
        yield from _selects(
            each,
            "machine image",
            partial(environment.machine_images, each.ami_selector_terms),
        )


def _hands_out(place: Place, node_class: NodeClass) -> Iterator[Finding]:
    """Find a class whose role launches may not pass to instances, or whose instance profile has none."""
    name, profile = f"EC2NodeClass/{node_class.name}", node_class.instance_profile
    role = node_class.role
    if profile is not None:
        role = _role_in(place, profile)
        if role is None:
            message = f"{name} names the instance profile {profile}, which does not exist or has no role"
            yield Finding(
                Severity.ERROR, "classes", message, "make it, and add a role to it"
            )
            return
    allowed = place.deployment.instance_role
    if role is not None and not fnmatchcase(role, allowed.rpartition("/")[2]):
        message = f"{name} hands the role {role} to instances, and launches may pass {allowed} alone"
        yield Finding(
            Severity.ERROR, "classes", message, "correct the class, or set instanceRole"
        )


def _role_in(place: Place, profile: str) -> str | None:
    client = place.clients("iam")
    try:
        found = client.get_instance_profile(InstanceProfileName=profile)
    except client.exceptions.NoSuchEntityException:
        return None
    roles = [str(each["RoleName"]) for each in found["InstanceProfile"]["Roles"]]
    return roles[0] if roles else None


def _selects(
    node_class: NodeClass, what: str, look_up: Callable[[], Sequence[object]]
) -> Iterator[Finding]:
    name = f"EC2NodeClass/{node_class.name}"
    try:
        found = look_up()
    except AwsError as error:
        message = f"{name}: no {what} could be looked up: {error}"
        yield Finding(
            Severity.SKIPPED, "classes", message, "ask with permissions that allow it"
        )
        return
    if not found:
        advice = "correct its terms, or tag what it should select; EC2 shows no image that the account does not allow"
        yield Finding(Severity.ERROR, "classes", f"{name} selects no {what}", advice)


def trail(place: Place) -> Iterator[Finding]:
    """Whether a trail reports calls that change reservations to EventBridge."""
    yield from trail_of(place.clients("cloudtrail"))


def _policy(place: Place) -> tuple[list[NodePool], list[NodeClass]]:
    """Return the pools and classes that are deployed with the stack; `validate` reports what is wrong with them."""
    folder = place.deployment.manifests
    if folder is None:
        return [], []
    values = [
        read.manifest.to_core() for read in read_files(files.read([str(folder)])).manifests
    ]
    pools = [value for value in values if isinstance(value, NodePool)]
    return pools, [value for value in values if isinstance(value, NodeClass)]
