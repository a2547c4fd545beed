"""Whether the policy that bounds all roles lets the functions do what their own policies allow them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from reservoir.cli.deployment.cdk import ROOT
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place

_CHECK: Final = "permissions-boundary"
# A statement for each setting that needs more; its test compares them with the functions' policies.
_NEEDED: Final = ROOT / "examples" / "iam" / "boundary.json"
_DONE_WITHOUT: Final = "DoneWithout"
_NAMED: Final = 4  # actions that a message names
_Statement = Mapping[str, Any]


def permissions_boundary(place: Place) -> Iterator[Finding]:
    """Whether the policy that bounds all roles exists, and allows what they need; conditions are not checked."""
    arn = place.deployment.settings.permissions_boundary
    if arn is None:
        return
    client = place.clients("iam")
    try:
        policy = client.get_policy(PolicyArn=arn)["Policy"]
    except client.exceptions.NoSuchEntityException:
        advice = "make it, or correct permissionsBoundary"
        yield Finding(Severity.ERROR, _CHECK, f"{arn} does not exist", advice)
        return
    version = client.get_policy_version(
        PolicyArn=arn, VersionId=policy["DefaultVersionId"]
    )["PolicyVersion"]
    bounds = _listed(version["Document"]["Statement"])
    for needed in json.loads(_NEEDED.read_text(encoding="utf-8"))["Statement"]:
        denied = [each for each in needed["Action"] if not _is_within(bounds, each)]
        if denied and _is_asked(place, needed["Sid"]):
            yield _denies(arn, needed["Sid"], denied)


def _denies(arn: str, sid: str, denied: Sequence[str]) -> Finding:
    more = ", …" if len(denied) > _NAMED else ""
    severity, what = (
        (Severity.WARNING, "can do without")
        if sid == _DONE_WITHOUT
        else (Severity.ERROR, "need")
    )
    message = (
        f"{arn} does not allow {', '.join(denied[:_NAMED])}{more}, which functions {what}"
    )
    return Finding(
        severity, _CHECK, message, "allow in it what examples/iam/boundary.json allows"
    )


def _is_asked(place: Place, sid: str) -> bool:
    settings = place.deployment.settings
    by_setting = {
        "WithVpc": settings.vpc,
        "WithKeys": settings.encryption_key or settings.kms_keys,
        "WithTracing": settings.tracing,
    }
    return bool(by_setting.get(sid, True))


def _is_within(bounds: Sequence[_Statement], action: str) -> bool:
    """Whether a statement allows an action of anything, and none denies it of everything."""
    about = [each for each in bounds if _covers(each, action)]
    is_denied = any(each["Effect"] == "Deny" and _is_of_everything(each) for each in about)
    return not is_denied and any(each["Effect"] == "Allow" for each in about)


def _covers(statement: _Statement, action: str) -> bool:
    patterns = _listed(statement.get("Action", statement.get("NotAction")))
    is_named = any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)
    return is_named is ("Action" in statement)


def _is_of_everything(statement: _Statement) -> bool:
    return "Condition" not in statement and "*" in _listed(statement.get("Resource"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
