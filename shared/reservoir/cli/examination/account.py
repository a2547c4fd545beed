"""What the doctor looks at in the account around a deployment."""

from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.scheduling_terms import labels
from reservoir.usecases.policy.policy_objects import policy_of

# Of this clock and AWS's. Signatures are refused beyond five minutes, and deadlines are shown a minute wrong here.
_SKEW_MAX: Final = timedelta(minutes=1)
_SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
# executions at once that a busy stack needs; new accounts have ten for everything
_CONCURRENCY_MIN: Final = 15


def concurrency(stack: Connection) -> Iterator[Finding]:
    """Whether Lambda has room for the functions."""
    limit = stack.client("lambda").get_account_settings()["AccountLimit"][
        "UnreservedConcurrentExecutions"
    ]
    if limit < _CONCURRENCY_MIN:
        message = f"Lambda runs {limit} functions at once in this account, and a busy stack needs {_CONCURRENCY_MIN}"
        advice = "ask Service Quotas for more concurrent executions of Lambda (L-B99A9384)"
        yield Finding(Severity.WARNING, "concurrency", message, advice)


def trail(stack: Connection) -> Iterator[Finding]:
    """Whether a trail reports calls that change reservations to EventBridge."""
    yield from trail_of(stack.client("cloudtrail"))


def trail_of(client: Any) -> Iterator[Finding]:
    """Return a finding if no trail of the account reports calls that change reservations to EventBridge."""
    trails = client.describe_trails()["trailList"]
    if not any(_logs_here(client, each) for each in trails):
        message = "no trail logs management calls here: a change of a reservation is seen a minute later"
        advice = "have a trail log this region's management events that write, or accept the delay of a minute"
        yield Finding(Severity.HINT, "trail", message, advice)


def _logs_here(client: Any, trail: dict[str, Any]) -> bool:
    """Whether a trail logs calls that write; a trail in this list logs this region."""
    if not client.get_trail_status(Name=trail["TrailARN"])["IsLogging"]:
        return False
    chosen = client.get_event_selectors(TrailName=trail["TrailARN"])
    selectors = chosen.get("EventSelectors") or []
    if not selectors:  # advanced ones, whose fields say what
        return any(_is_of_writes(each) for each in chosen.get("AdvancedEventSelectors", []))
    return any(
        each["IncludeManagementEvents"] and each["ReadWriteType"] != "ReadOnly"
        for each in selectors
    )


def _is_of_writes(selector: dict[str, Any]) -> bool:
    fields = {each["Field"]: each for each in selector["FieldSelectors"]}
    read_only = fields.get("readOnly", {}).get("Equals", ["false"])
    return (
        "Management" in fields["eventCategory"].get("Equals", []) and "false" in read_only
    )


def clock(stack: Connection) -> Iterator[Finding]:
    """Whether this machine's clock and AWS's agree."""
    answer = stack.client("sts").get_caller_identity()["ResponseMetadata"]
    skew = abs(
        stack.outside.clock.now() - parsedate_to_datetime(answer["HTTPHeaders"]["date"])
    )
    if skew > _SKEW_MAX:
        message = f"this machine's clock and AWS's differ by {skew.total_seconds():.0f} s"
        yield Finding(
            Severity.ERROR,
            "clock",
            message,
            "set the clock: AWS refuses signatures beyond five minutes",
        )


def spot_role(stack: Connection) -> Iterator[Finding]:
    """Whether Spot's service-linked role is there, if a pool may use spot; EC2 needs no other for instant fleets."""
    pools = policy_of(stack.outside.policy.list_all()).node_pools
    if not any(
        pool.requirements[labels.CAPACITY_TYPE].has(CapacityType.SPOT.value)
        for pool in pools
    ):
        return
    client = stack.client("iam")
    try:
        client.get_role(RoleName=_SPOT_ROLE)
    except client.exceptions.NoSuchEntityException:
        advice = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, or spotServiceLinkedRole"
        yield Finding(
            Severity.WARNING,
            "spot-role",
            f"pools may use spot, and {_SPOT_ROLE} does not exist",
            advice,
        )
