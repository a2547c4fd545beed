"""What would stop the stack from being made or updated."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from reservoir.cli.deployment.account import REFUSED
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place

_BOOTSTRAP_MIN: Final = 6  # what the CDK's rule in the template asks for
_CDK_ROLES: Final = ("deploy-role", "file-publishing-role")
# What a stack makes of each, at the most; the template's tests hold it below.
_ROLES: Final = 25
_POLICIES: Final = 25
_RULES: Final = 40
_RULES_MAX: Final = 300  # of a bus, unless a higher quota was granted
_CODE_BYTES: Final = 250 * 1024 * 1024
# States from which CloudFormation updates again: in the others it is busy, or waits for a person.
_AT_REST: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "REVIEW_IN_PROGRESS",
        "ROLLBACK_COMPLETE",  # a first deployment that failed: the next one deletes it
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)


def account(place: Place) -> Iterator[Finding]:
    """Whether the credentials belong to the account of the settings."""
    wanted = place.deployment.settings.account
    found = place.account()
    if wanted is not None and wanted != found:
        message = f"these credentials belong to {found}, and the settings name {wanted}"
        yield Finding(
            Severity.ERROR,
            "account",
            message,
            "use credentials of that account, or correct account",
        )


def bootstrap(place: Place) -> Iterator[Finding]:
    """Whether the CDK was bootstrapped here, under the qualifier of the settings, and lately enough."""
    client = place.clients("ssm")
    try:
        version = client.get_parameter(Name=f"/cdk-bootstrap/{place.qualifier}/version")[
            "Parameter"
        ]["Value"]
    except client.exceptions.ParameterNotFound:
        message = f"the CDK is not bootstrapped here under the qualifier {place.qualifier}"
        advice = (
            "make bootstrap, or set bootstrapQualifier to the one that your account has"
        )
        yield Finding(Severity.ERROR, "bootstrap", message, advice)
        return
    if int(version) < _BOOTSTRAP_MIN:
        message = f"the CDK's bootstrap here has version {version}, and {_BOOTSTRAP_MIN} is needed"
        yield Finding(Severity.ERROR, "bootstrap", message, "make bootstrap")


def cdk_roles(place: Place) -> Iterator[Finding]:
    """Whether these credentials may take the roles with which the CDK deploys."""
    found = place.account()
    roles = [f"cdk-{place.qualifier}-{name}-{found}-{place.region}" for name in _CDK_ROLES]
    refused = [
        role for role in roles if not _may_take(place, f"arn:aws:iam::{found}:role/{role}")
    ]
    if refused:
        message = f"these credentials may not take {' and '.join(refused)}"
        advice = "allow sts:AssumeRole on them; where these may do all that is needed, the CDK does without"
        yield Finding(Severity.WARNING, "cdk-roles", message, advice)


def _may_take(place: Place, role: str) -> bool:
    try:
        place.clients("sts").assume_role(RoleArn=role, RoleSessionName="reservoir-check")
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return False
    return True


def stack(place: Place) -> Iterator[Finding]:
    """Whether CloudFormation would update the stack, if there is one."""
    name = place.deployment.stack
    status = next(
        (each["StackStatus"] for each in _stacks(place) if each["StackName"] == name), None
    )
    if status is None or status in _AT_REST or status == "DELETE_COMPLETE":
        return
    message = f"the stack {name} is {status}, which CloudFormation does not update"
    if status.endswith("_IN_PROGRESS"):
        yield Finding(Severity.ERROR, "stack", message, "wait until it is over")
    else:
        advice = "aws cloudformation continue-update-rollback, or delete what could not be deleted, as its events say"
        yield Finding(Severity.ERROR, "stack", message, advice)


def room(place: Place) -> Iterator[Finding]:
    """Whether the account's quotas have room for what the stack makes."""
    if _stands(place):
        return
    used = place.clients("iam").get_account_summary()["SummaryMap"]
    yield from _little_room("IAM roles", used["Roles"], used["RolesQuota"], _ROLES)
    yield from _little_room(
        "IAM policies", used["Policies"], used["PoliciesQuota"], _POLICIES
    )
    settings = place.clients("lambda").get_account_settings()
    code = settings["AccountUsage"]["TotalCodeSize"]
    most = settings["AccountLimit"]["TotalCodeSize"]
    yield from _little_room("bytes of Lambda's code", code, most, _CODE_BYTES)
    pages = place.clients("events").get_paginator("list_rules").paginate()
    yield from _little_room(
        "EventBridge rules", sum(len(page["Rules"]) for page in pages), _RULES_MAX, _RULES
    )


def _stands(place: Place) -> bool:
    return any(_is_made(each, place.deployment.stack) for each in _stacks(place))


def _stacks(place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the account's stacks, read page by page."""
    for page in place.clients("cloudformation").get_paginator("describe_stacks").paginate():
        yield from page["Stacks"]


def _is_made(stack: Mapping[str, Any], name: str) -> bool:
    return bool(
        stack["StackName"] == name
        and stack["StackStatus"] not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")
    )


def _little_room(what: str, used: int, most: int, needed: int) -> Iterator[Finding]:
    if used + needed > most:
        message = f"{used} of {most} {what} are used, and a deployment makes up to {needed}"
        yield Finding(
            Severity.ERROR,
            "room",
            message,
            "delete what is not needed, or ask Service Quotas for more",
        )


def permissions_boundary(place: Place) -> Iterator[Finding]:
    """Whether the policy that bounds all roles exists."""
    arn = place.deployment.settings.permissions_boundary
    if arn is None:
        return
    client = place.clients("iam")
    try:
        client.get_policy(PolicyArn=arn)
    except client.exceptions.NoSuchEntityException:
        advice = "make it, or correct permissionsBoundary"
        yield Finding(
            Severity.ERROR, "permissions-boundary", f"{arn} does not exist", advice
        )
