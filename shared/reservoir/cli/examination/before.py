"""Checks of an account before anything is deployed into it. All of them only read."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from reservoir.adapters.clients import pricing_region
from reservoir.cli.deployment.account import SPOT_ROLE
from reservoir.cli.examination import (
    before_launches,
    before_stack,
    boundary,
    data_key,
    execution,
    network,
)
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import OF_AWS, Place
from reservoir.deployment.partitions import unserved

_CONCURRENCY_MIN: Final = 15  # as of the doctor
# Of the default policy of a topic, and what lets CloudWatch in.
_CLOUDWATCH: Final = "cloudwatch.amazonaws.com"
# https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#compatibility-with-aws-services
_TO_PUBLISH: Final = ("kms:Decrypt", "kms:GenerateDataKey")
_PUBLISH: Final = frozenset({"sns:publish", "sns:*", "*"})


def region(place: Place) -> Iterator[Finding]:
    """Whether the region is served."""
    reason = unserved(place.region)
    if reason is not None:
        yield Finding(
            Severity.ERROR,
            "region",
            f"{place.region} is not supported: {reason}",
            "choose another region",
        )


def concurrency(place: Place) -> Iterator[Finding]:
    """Whether Lambda has room for the functions, and for the concurrency that is to be reserved for them."""
    limits = place.clients("lambda").get_account_settings()["AccountLimit"]
    free = limits["UnreservedConcurrentExecutions"]
    advice = "ask Service Quotas for more concurrent executions of Lambda (L-B99A9384)"
    # 13 are kept, and 100 must be left
    if place.deployment.settings.reserve_concurrency and free < 113:
        message = f"reserveConcurrency needs 113 unreserved concurrent executions, and there are {free}"
        yield Finding(Severity.ERROR, "concurrency", message, advice)
    elif free < _CONCURRENCY_MIN:
        message = f"Lambda runs {free} functions at once in this account, and a busy stack needs {_CONCURRENCY_MIN}"
        yield Finding(Severity.WARNING, "concurrency", message, advice)


def instance_role(place: Place) -> Iterator[Finding]:
    """Whether the role of nodes exists, EC2 may take it, and it has an instance profile."""
    name = place.deployment.instance_role.rpartition("/")[2]
    if name.endswith("*"):
        return  # a pattern: the classes say which
    client = place.clients("iam")
    try:
        role = client.get_role(RoleName=name)["Role"]
    except client.exceptions.NoSuchEntityException:
        message = f"the role {name} of nodes does not exist"
        yield Finding(
            Severity.ERROR,
            "instance-role",
            message,
            "make it with an instance profile, or set instanceRole",
        )
        return
    if not _lets_in(role["AssumeRolePolicyDocument"], "ec2.amazonaws.com"):
        message = f"the role {name} does not trust ec2.amazonaws.com"
        yield Finding(
            Severity.ERROR, "instance-role", message, "add EC2 to the role's trust policy"
        )
    if not client.list_instance_profiles_for_role(RoleName=name)["InstanceProfiles"]:
        message = f"the role {name} is in no instance profile"
        yield Finding(
            Severity.ERROR,
            "instance-role",
            message,
            "make an instance profile, and add the role to it",
        )


def _lets_in(document: Mapping[str, Any] | str, service: str) -> bool:
    policy = json.loads(document) if isinstance(document, str) else document
    principals = [
        each.get("Principal", {})
        for each in policy["Statement"]
        if each["Effect"] == "Allow"
    ]
    services = [each.get("Service", []) for each in principals if isinstance(each, dict)]
    return any(service in ([each] if isinstance(each, str) else each) for each in services)


def spot_role(place: Place) -> Iterator[Finding]:
    """Whether the role that EC2 needs for Spot is there, or is going to be made."""
    client = place.clients("iam")
    try:
        client.get_role(RoleName=SPOT_ROLE)
    except client.exceptions.NoSuchEntityException:
        if not place.deployment.settings.spot_service_linked_role:
            message = f"{SPOT_ROLE} does not exist, and EC2 will refuse spot"
            advice = "set spotServiceLinkedRole: true, unless no pool may use spot"
            yield Finding(Severity.WARNING, "spot-role", message, advice)


def volume_key(place: Place) -> Iterator[Finding]:
    """Whether volumes are encrypted with a key that launches may use."""
    client = place.clients("ec2")
    if not client.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]:
        return
    # by whatever it was set with: the key's id or ARN, or those of an alias
    key = client.get_ebs_default_kms_key_id()["KmsKeyId"]
    if OF_AWS in key or key in place.deployment.settings.kms_keys:
        return
    kms = place.clients("kms")
    try:
        found = kms.describe_key(KeyId=key)["KeyMetadata"]
    except kms.exceptions.NotFoundException:
        message = f"volumes are encrypted with {key} by default, which does not exist"
        advice = "set another: aws ec2 modify-ebs-default-kms-key-id"
        yield Finding(Severity.ERROR, "volume-key", message, advice)
        return
    is_own = found.get("KeyManager") == "CUSTOMER"
    if is_own and found["Arn"] not in place.deployment.settings.kms_keys:
        message = f"volumes are encrypted with {found['Arn']} by default, and launches may not use it"
        advice = "name it in kmsKeys, and let LaunchRoleArn use it"
        yield Finding(Severity.ERROR, "volume-key", message, advice)


def alarm_topic(place: Place) -> Iterator[Finding]:
    """Whether alarms can reach the topic."""
    topic = place.deployment.settings.alarm_topic
    if topic is None:
        return
    if topic.split(":")[3] != place.region:
        message = (
            f"{topic} is in another region, and alarms reach topics of their own alone"
        )
        yield Finding(
            Severity.ERROR, "alarm-topic", message, f"name a topic in {place.region}"
        )
        return
    client = place.clients("sns")
    try:
        attributes = client.get_topic_attributes(TopicArn=topic)["Attributes"]
    except client.exceptions.NotFoundException:
        yield Finding(
            Severity.ERROR,
            "alarm-topic",
            f"{topic} does not exist",
            "make it, or correct alarmTopic",
        )
        return
    key = attributes.get("KmsMasterKeyId", "")
    if key.startswith(OF_AWS):
        message = f"{topic} is encrypted with AWS's own key, which CloudWatch may not use"
        yield Finding(
            Severity.ERROR,
            "alarm-topic",
            message,
            "encrypt it with a key of yours that lets CloudWatch in",
        )
    elif key and not _lets_cloudwatch_in(place.clients("kms"), key):
        message = f"the policy of {key}, with which {topic} is encrypted, does not let CloudWatch in"
        yield Finding(
            Severity.ERROR,
            "alarm-topic",
            message,
            f"allow {_CLOUDWATCH} {' and '.join(_TO_PUBLISH)}",
        )
    if not _may_be_notified(attributes.get("Policy")):
        message = f"the policy of {topic} lets neither this account nor CloudWatch publish"
        yield Finding(
            Severity.ERROR,
            "alarm-topic",
            message,
            "allow cloudwatch.amazonaws.com to sns:Publish",
        )


def _lets_cloudwatch_in(client: Any, key: str) -> bool:
    arn = client.describe_key(KeyId=key)["KeyMetadata"]["Arn"]
    policy = json.loads(client.get_key_policy(KeyId=arn, PolicyName="default")["Policy"])
    allowing = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    return all(data_key.allows(allowing, _CLOUDWATCH, action) for action in _TO_PUBLISH)


def _may_be_notified(policy: str | None) -> bool:
    """Whether a statement lets a principal publish that CloudWatch's alarms can be; conditions are not checked."""
    if policy is None:
        return True  # the service's own
    for statement in json.loads(policy)["Statement"]:
        actions = statement.get("Action", [])
        named = {
            each.lower() for each in ([actions] if isinstance(actions, str) else actions)
        }
        principal = statement.get("Principal", {})
        who = {"AWS": principal} if isinstance(principal, str) else principal
        if (
            statement["Effect"] == "Allow"
            and named & _PUBLISH
            and ("AWS" in who or _CLOUDWATCH in str(who))
        ):
            return True
    return False


def prices(place: Place) -> Iterator[Finding]:
    """Whether the price list answers; without prices nothing is bought on demand."""
    found = place.prices(pricing_region(place.region)).get_products(
        ServiceCode="AmazonEC2", MaxResults=1
    )
    if not found["PriceList"]:
        message = "the price list knows no price of EC2"
        yield Finding(
            Severity.ERROR,
            "prices",
            message,
            "nothing would be bought on demand: ask AWS's support why",
        )


CHECKS: Final[Mapping[str, Callable[[Place], Iterator[Finding]]]] = {
    "region": region,
    "services": before_launches.services,
    "account": before_stack.account,
    "bootstrap": before_stack.bootstrap,
    "cdk-roles": before_stack.cdk_roles,
    "execution-role": execution.execution_role,
    "stack": before_stack.stack,
    "names": before_stack.names_in_use,
    "room": before_stack.room,
    "permissions-boundary": boundary.permissions_boundary,
    "concurrency": concurrency,
    "instance-role": instance_role,
    "spot-role": spot_role,
    "vpc": network.vpc,
    "encryption-key": data_key.encryption_key,
    "volume-key": volume_key,
    "keys": before_launches.keys,
    "metadata": before_launches.metadata,
    "quotas": before_launches.quotas,
    "classes": before_launches.classes,
    "alarm-topic": alarm_topic,
    "trail": before_launches.trail,
    "prices": prices,
}


def look(place: Place, refusals: tuple[type[Exception], ...]) -> list[Finding]:
    """Return the findings of all checks, the worst first.

    A check that meets one of ``refusals`` is skipped, and says so.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found += check(place)
        except refusals as error:
            advice = "use credentials that may read it; what the functions may not read either stops them"
            found.append(Finding(Severity.SKIPPED, name, f"not checked: {error}", advice))
    order = list(Severity)
    return sorted(
        found,
        key=lambda finding: (order.index(finding.severity), finding.check, finding.message),
    )
