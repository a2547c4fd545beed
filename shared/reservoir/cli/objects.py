"""Names of policy objects as users type them."""

from collections.abc import Sequence
from typing import Final

from reservoir.cli.console import fail
from reservoir.core.scheduling_terms.labels import closest
from reservoir.ports.policy import PolicyKind, PolicyStore

_SPELLINGS: Final = {
    "nodepool": PolicyKind.NODE_POOL,
    "nodepools": PolicyKind.NODE_POOL,
    "ec2nodeclass": PolicyKind.NODE_CLASS,
    "ec2nodeclasses": PolicyKind.NODE_CLASS,
    "nodeclass": PolicyKind.NODE_CLASS,
    "nodeclasses": PolicyKind.NODE_CLASS,
    "team": PolicyKind.TEAM,
    "teams": PolicyKind.TEAM,
}


def kind_of(text: str) -> PolicyKind:
    """Read a kind: nodepool, EC2NodeClass, nodeclasses ..."""
    kind = _SPELLINGS.get(text.lower())
    if kind is None:
        hint = closest(text.lower(), _SPELLINGS)
        fail(
            f"{text!a} is no kind of object"
            + (f"; did you mean {hint}?" if hint else "; use nodepool, nodeclass or team")
        )
    return kind


def does_not_exist(store: PolicyStore, kind: PolicyKind, name: str) -> str:
    """Say that there is no such object, and which one may have been meant."""
    hint = closest(name, [row.name for row in store.list_all() if row.kind is kind])
    return f"{kind.lower()}/{name} does not exist" + (f"; did you mean {hint}?" if hint else "")


def names_of(words: Sequence[str]) -> list[tuple[PolicyKind, str]]:
    """Read ``KIND NAME...`` or ``KIND/NAME...``."""
    if all("/" in word for word in words):
        pairs = [word.split("/", 1) for word in words]
        return [(kind_of(kind), name) for kind, name in pairs]
    if len(words) < 2 or any("/" in word for word in words):
        fail("name objects as KIND NAME... or KIND/NAME...")
    return [(kind_of(words[0]), name) for name in words[1:]]
