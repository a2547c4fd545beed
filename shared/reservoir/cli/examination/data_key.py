"""Whether the key for stored data can be used, by the account and by AWS's own services."""

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place

_CHECK: Final = "encryption-key"
_TO_SEND: Final = ("kms:Decrypt", "kms:GenerateDataKey")
_TO_LOG: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey")


def encryption_key(place: Place) -> Iterator[Finding]:
    """Whether the key exists and is enabled, and its policy lets all users of it in; conditions are not checked."""
    key = place.deployment.settings.encryption_key
    if key is None:
        return
    if key.split(":")[3] != place.region:
        message = f"{key} is in another region, and nothing in {place.region} can use it"
        yield _error(message, f"name a key in {place.region}")
        return
    client = place.clients("kms")
    try:
        found = client.describe_key(KeyId=key)["KeyMetadata"]
    except client.exceptions.NotFoundException:
        yield _error(f"{key} does not exist", "make it, or correct encryptionKey")
        return
    if found["KeyState"] != "Enabled":
        message = f"{key} is {found['KeyState']}: nothing could be read or written"
        yield _error(message, "enable it, or name another in encryptionKey")
    if found.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        yield _error(f"{key} is not symmetric", "name a symmetric key in encryptionKey")
        return
    policy = json.loads(client.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    yield from _lets_in(place, key, policy)


def _lets_in(place: Place, key: str, policy: Mapping[str, Any]) -> Iterator[Finding]:
    statements = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    account = key.split(":")[4]
    needed: Mapping[str, tuple[str, Iterable[str]]] = {
        f"{account}:root": ("no policy of a role counts", _TO_SEND),
        "events.amazonaws.com": ("EventBridge reaches no queue", _TO_SEND),
        f"logs.{place.region}.amazonaws.com": ("no log group can be made", _TO_LOG),
    }
    for principal, (without, actions) in needed.items():
        if not all(allows(statements, principal, action) for action in actions):
            message = f"the policy of {key} does not let {principal} in: {without}"
            yield _error(message, "take the statements of examples/iam/encryption-key.json")


def allows(statements: Iterable[Mapping[str, Any]], principal: str, action: str) -> bool:
    """Whether statements that allow something let a principal take an action; conditions are not checked."""
    return any(
        _lets(statement, principal) and _covers(statement, action)
        for statement in statements
    )


def _lets(statement: Mapping[str, Any], principal: str) -> bool:
    """Whether a statement is about the principal."""
    who = statement.get("Principal", {})
    named = [who] if isinstance(who, str) else who.values()
    principals = chain.from_iterable(_listed(each) for each in named)
    return any(_is(text, principal) for text in principals)


def _covers(statement: Mapping[str, Any], action: str) -> bool:
    patterns = _listed(statement.get("Action", []))
    return any(fnmatchcase(action, pattern) for pattern in patterns)


def _is(named: str, principal: str) -> bool:
    """Whether a policy's principal is the one; an account may be named by its number alone."""
    return (
        named in ("*", principal)
        or named.endswith(f"::{principal}")
        or f"{named}:root" == principal
    )


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _error(message: str, advice: str) -> Finding:
    return Finding(Severity.ERROR, _CHECK, message, advice)
