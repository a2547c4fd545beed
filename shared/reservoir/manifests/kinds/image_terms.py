"""Terms that select machine images, AWS's own by alias among them."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field

from reservoir.core.model.node_class import SelectorTerm
from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.kinds.selector_terms import SelectorTermModel, TagFilters
from reservoir.manifests.parsing.fields import an_id, broken
from reservoir.manifests.parsing.model import Contradiction, text_in

ALIAS_FAMILIES: Final = (
    "al2",
    "al2023",
    "bottlerocket",
    "windows2019",
    "windows2022",
    "windows2025",
)
AMI_FAMILIES: Final = (
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Windows2019",
    "Windows2022",
    "Windows2025",
)
NO_WINDOWS: Final = "instance types are known by what they are and cost with Linux"
_LATEST: Final = "latest"
# How AWS numbers the images that an alias selects here: a family's releases with an example.
_RELEASES: Final[Mapping[str, tuple[str, str]]] = {
    "al2": (r"2\.0\.[0-9]{8}(\.[0-9]+)?", "2.0.20240709.1"),
    "al2023": (r"2023\.[0-9]+\.[0-9]{8}(\.[0-9]+)?", "2023.5.20240708.0"),
    "bottlerocket": (r"v?[0-9]+\.[0-9]+\.[0-9]+", "v1.20.0"),
}
_EKS_RELEASE: Final = re.compile(r"v[0-9]{8}")
# What selects nothing that Kubernetes' users would expect, and what is selected instead.
_LATEST_IS: Final[Mapping[str, str]] = {
    "al2": "the newest Amazon Linux 2",
    "al2023": "the newest Amazon Linux 2023",
    "bottlerocket": "the newest Bottlerocket for ECS",
}


def _nearest_alias(family: str, version: str) -> str | None:
    known = (
        family.lower()
        if family.lower() in ALIAS_FAMILIES
        else closest(family.lower(), ALIAS_FAMILIES)
    )
    return None if known is None else f"{known}@{version or _LATEST}"


def _check_alias(text: str) -> str:
    family, at, version = text.partition("@")
    if not at or not version or family not in ALIAS_FAMILIES:
        message = f"must be family@version with a family out of {', '.join(ALIAS_FAMILIES)}"
        raise broken("alias", message, partial(_nearest_alias, family, version))
    return text


def unservable_alias(alias: str) -> str | None:
    """Say why an alias selects no image that this product launches; None for one that does, and for no alias."""
    family, _, version = alias.partition("@")
    if family.startswith("windows"):
        return f"Windows is not served: {NO_WINDOWS}"
    pattern, example = _RELEASES.get(family, ("", ""))
    # without a version it is no alias, which is said of it already
    if not pattern or version in ("", _LATEST) or re.fullmatch(pattern, version):
        return None
    if _EKS_RELEASE.fullmatch(version):
        return (
            f"{version} is a release of the images for EKS, which are for one version of Kubernetes each: pin a release"
            f" of the system itself ({family}@{example}), or select the image by name and owner, or by ssmParameter"
        )
    return f"is pinned to a release that AWS does not number so: {family}@{example} or {family}@{_LATEST}"


def note_on_alias(alias: str) -> str | None:
    """Say what an alias selects, where Kubernetes' users expect something else."""
    family, _, version = alias.partition("@")
    image = _LATEST_IS.get(family)
    if image is None:
        return None
    which = (
        image if version == _LATEST else image.removeprefix("the newest ") + f" {version}"
    )
    return (
        f"{alias} is {which}, not the image for EKS, and the same for all instance types: drivers of GPUs and Neuron"
        " come from an image that has them (ssmParameter or name) or from userData"
    )


class ImageTerm(SelectorTermModel):
    """Selects machine images by id, name, tags, SSM parameter, or AWS's own by alias."""

    selecting: ClassVar[tuple[str, ...]] = ("alias", "id", "name", "ssmParameter", "tags")
    exclusive: ClassVar[tuple[str, ...]] = ("id", "alias", "ssmParameter")

    alias: Annotated[str, Field(max_length=60), AfterValidator(_check_alias)] | None = (
        Field(
            default=None,
            description=(
                "family@version: al2023 and al2 are Amazon Linux, bottlerocket is its variant for ECS, each without"
                " Kubernetes; version is latest, or a release of the system (al2023@2023.5.20240708.0,"
                " bottlerocket@v1.20.0)."
            ),
        )
    )
    id: Annotated[str, an_id("ami")] | None = None
    name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    owner: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    ssm_parameter: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    tags: TagFilters | None = None

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the alias selects an image here."""
        alias = text_in(raw, "alias")
        why = unservable_alias(alias)
        if why is not None:
            family = alias.partition("@")[0]
            hint = None if family.startswith("windows") else f"{family}@{_LATEST}"
            yield Contradiction("alias", "alias", why, lambda: hint)

    def to_core(self) -> SelectorTerm:
        """Return the term of the core."""
        return SelectorTerm(
            id=self.id,
            name=self.name,
            owner=self.owner,
            alias=self.alias,
            ssm_parameter=self.ssm_parameter,
            tags=dict(sorted((self.tags or {}).items())),
        )
