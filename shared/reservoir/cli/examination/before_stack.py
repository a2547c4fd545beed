"""What would stop the stack from being made or updated."""

from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from reservoir.cli.deployment.account import REFUSED, Account
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place
from reservoir.names import Function, function_name, node_log_group

_GONE: Final = "404"  # S3 answers a HEAD with a status alone
_BOOTSTRAP_MIN: Final = 6  # what the CDK's rule in the template asks for
_CDK_ROLES: Final = ("deploy-role", "file-publishing-role")
# What a stack makes of each, at the most.
ROLES: Final = 25
POLICIES: Final = 25
RULES: Final = 40
TABLES: Final = 8
# Service Quotas' codes, with AWS's defaults, which are fewer rules in some regions.
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
_RULES_QUOTA: Final = ("events", "L-244521F2")
_RULES_DEFAULT: Final = 300
_FEW_RULES: Final = {"af-south-1": 100, "eu-south-1": 100}
_TABLES_QUOTA: Final = ("dynamodb", "L-F98FE922")
_TABLES_DEFAULT: Final = 2_500
_CODE_BYTES: Final = 250 * 1024 * 1024


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
        if _has_bucket(place):
            # The CDK keeps it, also where the rest of the bootstrap failed, and makes no other.
            bucket = _bucket(place)
            message += f", and the bucket {bucket} is in the way of a new bootstrap"
            advice = f"delete it, if nothing needs it (aws s3 rb s3://{bucket}), and make bootstrap"
        yield Finding(Severity.ERROR, "bootstrap", message, advice)
        return
    if int(version) < _BOOTSTRAP_MIN:
        message = f"the CDK's bootstrap here has version {version}, and {_BOOTSTRAP_MIN} is needed"
        yield Finding(Severity.ERROR, "bootstrap", message, "make bootstrap")
    if not _has_bucket(place):
        message = (
            f"the bootstrap's bucket {_bucket(place)}, which takes the code, does not exist"
        )
        advice = "delete the bootstrap's stack, and make bootstrap: it makes no bucket again that was deleted"
        yield Finding(Severity.ERROR, "bootstrap", message, advice)


def _bucket(place: Place) -> str:
    return f"cdk-{place.qualifier}-assets-{place.account()}-{place.region}"


def _has_bucket(place: Place) -> bool:
    """Return whether the bootstrap's bucket is there; one that may not be looked at is."""
    try:
        place.clients("s3").head_bucket(Bucket=_bucket(place))
    except ClientError as error:
        return bool(error.response["Error"]["Code"] != _GONE)
    return True


def cdk_roles(place: Place) -> Iterator[Finding]:
    """Whether these credentials may take the roles with which the CDK deploys."""
    found = place.account()
    roles = [f"cdk-{place.qualifier}-{name}-{found}-{place.region}" for name in _CDK_ROLES]
    refused = [
        role for role in roles if not _may_take(place, f"arn:aws:iam::{found}:role/{role}")
    ]
    if refused:
        message = f"these credentials may not take {' and '.join(refused)}"
        advice = "allow sts:AssumeRole on them; the CDK does not need them if these may do everything themselves"
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
    """Whether CloudFormation would update the stack, if there is one; what a first deployment left is replaced."""
    found = place.standing()
    if found is not None and found.hindrance is not None:
        why, advice = found.hindrance
        yield Finding(Severity.ERROR, "stack", why, advice)


def names_in_use(place: Place) -> Iterator[Finding]:
    """Whether something else has a name that the stack is going to give."""
    name = place.deployment.stack
    if place.standing() is not None or Account(place.clients).is_left(name):
        return
    taken = list(_taken(place, name))
    if taken:
        message = f"there is no stack {name}, and names that it gives are in use: {', '.join(taken)}"
        yield Finding(
            Severity.ERROR, "names", message, "delete what has them, or set another stack"
        )


def _taken(place: Place, stack: str) -> Iterator[str]:
    functions = {function_name(stack, function) for function in Function}
    for page in place.clients("lambda").get_paginator("list_functions").paginate():
        found = {each["FunctionName"] for each in page["Functions"]}
        yield from (f"function {each}" for each in sorted(functions & found))
    bus = place.deployment.event_bus_name
    buses = place.clients("events").list_event_buses(NamePrefix=bus)["EventBuses"]
    if bus in {each["Name"] for each in buses}:
        yield f"event bus {bus}"
    group = node_log_group(stack)
    found_groups = place.clients("logs").describe_log_groups(logGroupNamePrefix=group)
    if group in {each["logGroupName"] for each in found_groups["logGroups"]}:
        yield f"log group {group}"
    timers = Account(place.clients).left_timers(stack)
    if timers is not None:
        yield f"schedule group {timers}"


def room(place: Place) -> Iterator[Finding]:
    """Whether the account's quotas have room for what the stack makes."""
    if place.standing() is not None:
        return
    used = place.clients("iam").get_account_summary()["SummaryMap"]
    yield from _little_room("IAM roles", used["Roles"], used["RolesQuota"], ROLES)
    yield from _little_room(
        "IAM policies", used["Policies"], used["PoliciesQuota"], POLICIES
    )
    settings = place.clients("lambda").get_account_settings()
    code = settings["AccountUsage"]["TotalCodeSize"]
    most = settings["AccountLimit"]["TotalCodeSize"]
    yield from _little_room("bytes of Lambda's code", code, most, _CODE_BYTES)
    pages = place.clients("events").get_paginator("list_rules").paginate()
    rules = sum(len(page["Rules"]) for page in pages)
    most_rules = _granted(place, _RULES_QUOTA, _FEW_RULES.get(place.region, _RULES_DEFAULT))
    yield from _little_room("EventBridge rules", rules, most_rules, RULES)
    pages = place.clients("dynamodb").get_paginator("list_tables").paginate()
    tables = sum(len(page["TableNames"]) for page in pages)
    most_tables = _granted(place, _TABLES_QUOTA, _TABLES_DEFAULT)
    yield from _little_room("DynamoDB tables", tables, most_tables, TABLES)


def _granted(place: Place, quota: tuple[str, str], default: int) -> int:
    """Return a quota as the account has it; AWS's default where nobody may ask, or nothing is known of it."""
    service, code = quota
    client = place.clients("service-quotas")
    try:
        found = client.get_service_quota(ServiceCode=service, QuotaCode=code)
    except ClientError:
        return default
    return int(found["Quota"]["Value"])


def _little_room(what: str, used: int, most: int, needed: int) -> Iterator[Finding]:
    if used + needed > most:
        message = f"{used} of {most} {what} are used, and a deployment makes up to {needed}"
        yield Finding(
            Severity.ERROR,
            "room",
            message,
            "delete what is not needed, or ask Service Quotas for more",
        )
