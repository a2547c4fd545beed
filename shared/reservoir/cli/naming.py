"""What the verbs that act are about: kinds and names as users type them, alike for every verb."""

from collections.abc import Mapping, Sequence
from typing import Final

from reservoir.cli.console import fail
from reservoir.cli.nouns.registry import Registered, is_noun, registered

# The nouns, by their plurals, that each verb takes. Where there is one, names may come without it.
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "delete": ("pools", "classes", "teams", "nodes"),
    "explain": ("nodes", "workloads"),
    "logs": ("workloads",),
    "withdraw": ("workloads",),
    "release": ("workloads",),
    "reset": ("workloads",),
    "cordon": ("nodes",),
    "uncordon": ("nodes",),
    "drain": ("nodes",),
    "pause": ("pools",),
    "resume": ("pools",),
}
# Verbs of other nouns that a user may have meant.
INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("delete", "workloads"): "reservoir withdraw",
    ("drain", "workloads"): "reservoir withdraw",
    ("withdraw", "nodes"): "reservoir drain node",
    ("withdraw", "pools"): "reservoir delete nodepool",
    ("drain", "pools"): "reservoir delete nodepool",
    ("cordon", "pools"): "reservoir pause",
    ("uncordon", "pools"): "reservoir resume",
    ("pause", "nodes"): "reservoir cordon",
    ("resume", "nodes"): "reservoir uncordon",
}
DEFAULT_NAMESPACE: Final = "default"
_WORKLOADS: Final = "workloads"
# names that say by themselves what they name
_BY_PREFIX: Final = {"nc-": "nodes", "i-": "nodes"}


def named(verb: str, words: Sequence[str]) -> list[tuple[Registered, str]]:
    """Read ``KIND NAME...`` or ``KIND/NAME...``, and ``NAME...`` where the verb takes one kind only.

    Each pair comes once. Ends the command when something is not understood, or the verb does not take it.
    """
    first, *rest = words
    if rest and "/" not in first and is_noun(first):
        kind = _taken(verb, first)
        found = [(kind, _without_kind(word, kind)) for word in rest]
    else:
        found = [_kind_and_name(verb, word) for word in words]
    if not all(name for _, name in found):
        fail(_usage(verb))
    return list(dict.fromkeys(found))


def names_of(verb: str, words: Sequence[str]) -> list[str]:
    """Return the names alone, for a verb that takes one kind."""
    return [name for _, name in named(verb, words)]


def workload_key(name: str) -> str:
    """Return the identity of the workload that a user names."""
    return name if "/" in name else f"{DEFAULT_NAMESPACE}/{name}"


def _kind_and_name(verb: str, word: str) -> tuple[Registered, str]:
    takes = VERBS[verb]
    before, slash, name = word.partition("/")
    if slash and _is_kind(before, takes):
        return _taken(verb, before), name
    if len(takes) == 1:
        return registered(takes[0]), "" if is_noun(word) else word
    if slash:
        # other verbs have none before a slash but kinds
        return registered(_WORKLOADS), word
    prefixed = next(
        (noun for prefix, noun in _BY_PREFIX.items() if word.startswith(prefix)), None
    )
    if prefixed is None or prefixed not in takes:
        fail(_usage(verb))
    return registered(prefixed), word


def _is_kind(word: str, takes: Sequence[str]) -> bool:
    """Whether the part before a slash is a kind; namespaces of workloads may be called like other kinds."""
    if takes == (_WORKLOADS,):
        return is_noun(word) and registered(word).plural == _WORKLOADS
    return is_noun(word) or _WORKLOADS not in takes


def _without_kind(word: str, kind: Registered) -> str:
    """Return the name of ``node nc-1`` and of ``node node/nc-1``."""
    before, slash, name = word.partition("/")
    return name if slash and is_noun(before) and registered(before) is kind else word


def _taken(verb: str, word: str) -> Registered:
    """Return the noun that a word means; ends the command when the verb does not take it."""
    kind = registered(word)
    if kind.plural not in VERBS[verb]:
        described = f"reservoir describe {kind.kind}" if verb == "explain" else None
        instead = INSTEAD.get((verb, kind.plural), described)
        hint = f"use {instead}" if instead else f"it takes {', '.join(VERBS[verb])}"
        fail(f"reservoir {verb} takes no {kind.plural}; {hint}")
    return kind


def _usage(verb: str) -> str:
    kinds = [registered(plural).kind for plural in VERBS[verb]]
    if len(kinds) == 1:
        return f"say what to {verb}: {kinds[0]} NAME..."
    return f"say what to {verb}: KIND NAME... or KIND/NAME..., where KIND is {', '.join(kinds[:-1])} or {kinds[-1]}"
