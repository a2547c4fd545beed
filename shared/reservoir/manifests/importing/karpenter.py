"""Manifests of Karpenter's, of its first version or the beta before, as clusters and repositories have them."""

import copy
from typing import Any, Final

from reservoir.manifests.importing.draft import alias_of
from reservoir.manifests.importing.part import SourcePart
from reservoir.manifests.parsing.kubernetes import what_to_do_instead, without_bookkeeping
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Problem, Severity
from reservoir.manifests.parsing.variables import VARIABLE

KINDS: Final = ("NodePool", "EC2NodeClass")
_BETA: Final = "v1beta1"
_OLD_POLICY: Final = "WhenUnderutilized"
_NEW_POLICY: Final = "WhenEmptyOrUnderutilized"


def from_object(document: Document, part: SourcePart) -> dict[str, Any] | None:
    """Return an object as it can be applied here; None, with a note, for an object of another kind."""
    kind = str(document.value.get("kind"))
    if kind not in KINDS:
        instead = (
            what_to_do_instead(document.value) or "only NodePools and EC2NodeClasses are"
        )
        part.note("kind", f"{kind} is not imported: {instead}", severity=Severity.IGNORED)
        return None
    cleaned, notes = without_bookkeeping(document, part.subject)
    part.notes.extend(notes)
    value: dict[str, Any] = copy.deepcopy(cleaned.value)
    value.pop("status", None)
    if str(value.get("apiVersion", "")).endswith(_BETA):
        part.note("apiVersion", "of the beta: rewritten as the first version has it")
        _pool_of_beta(value) if kind == "NodePool" else _class_of_beta(value)
    filled: dict[str, Any] = _filled(value, document, (), part.notes, part.subject)
    return filled


def _pool_of_beta(value: dict[str, Any]) -> None:
    value["apiVersion"] = "karpenter.sh/v1"
    spec = value.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    disruption = spec.get("disruption") or {}
    if "expireAfter" in disruption:
        template.setdefault("expireAfter", disruption.pop("expireAfter"))
    if disruption.get("consolidationPolicy") == _OLD_POLICY:
        disruption["consolidationPolicy"] = _NEW_POLICY
    if disruption:
        disruption.setdefault("consolidateAfter", "0s")
    template.pop("kubelet", None)
    reference = template.get("nodeClassRef") or {}
    reference.pop("apiVersion", None)
    reference |= {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}
    if isinstance(template, dict) and template:
        template["nodeClassRef"] = reference


def _class_of_beta(value: dict[str, Any]) -> None:
    value["apiVersion"] = "karpenter.k8s.aws/v1"
    spec = value.get("spec") or {}
    if not spec.get("amiSelectorTerms"):
        spec["amiSelectorTerms"] = [
            alias_of(str(spec.get("amiFamily", ""))) or {"alias": "al2023@latest"}
        ]


def _filled(
    value: Any,
    document: Document,
    location: tuple[str | int, ...],
    notes: list[Problem],
    subject: str,
) -> Any:
    """Put a variable's own name where nothing has replaced it, and say so: user data has variables of its own."""
    if isinstance(value, dict):
        return {
            key: item
            if key in ("userData", "annotations")
            else _filled(item, document, (*location, key), notes, subject)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _filled(item, document, (*location, index), notes, subject)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, str) or VARIABLE.search(value) is None:
        return value
    plain = VARIABLE.sub(lambda found: _name_of(found[0]), value)
    here = SourcePart(document, location[:-1], {}, notes, subject)
    here.note(
        str(location[-1]),
        f"holds a variable that nothing has replaced: {plain} stands there",
    )
    return plain


def _name_of(variable: str) -> str:
    """Return the name of a variable, written so that it is none any more."""
    name = "".join(filter(_is_plain, variable)).strip("_")
    if VARIABLE.search(name) is None:
        return name
    # PLACEHOLDER and its like are in capitals, your-name has a hyphen; of an id without digits only the form is known
    small = name.lower()
    for plainer in (small, small.replace("-", ".").replace("_", ".")):
        if VARIABLE.search(plainer) is None:
            return plainer
    return small.replace("x", "0")


def _is_plain(character: str) -> bool:
    return character.isalnum() or character in "-_."
