"""Values of labels that EC2 has, as far as is known: from the catalogue of an account, or from names shipped along."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from reservoir.core.model.instance_type import InstanceType
from reservoir.core.scheduling_terms.labels import INSTANCE_TYPE, REGION, ZONE, ZONE_ID
from reservoir.core.scheduling_terms.requirement import integer_of

_LETTERS: Final = "abcdef"
_ORDINARY_HYPHENS: Final = 2  # us-east-1a; local and Wavelength zones have more


@dataclass(frozen=True, slots=True)
class KnownValues:
    """What values of a label are known; ``where`` ends the sentence "is not offered".

    Instance types are judged only if their family is among ``families`` (None: all are): a list that was shipped
    does not know what EC2 has added since.
    """

    values: Mapping[str, frozenset[str]]
    where: str
    families: frozenset[str] | None = field(default=None)

    def of(self, key: str, value: str) -> Collection[str]:
        """Return the known values where this one is not among them, and should be; else nothing."""
        known = self.values.get(key, frozenset())
        if not known or value in known:
            return ()
        if key == ZONE and value.count("-") > _ORDINARY_HYPHENS:
            return ()
        if (
            key == INSTANCE_TYPE
            and self.families is not None
            and value.partition(".")[0] not in self.families
        ):
            return ()
        return known


def of_catalogue(instance_types: Iterable[InstanceType]) -> KnownValues | None:
    """Return what a discovered catalogue knows; None when there is none. Numbers are no names, and left out."""
    found: dict[str, set[str]] = {}
    for kind in instance_types:
        for key, requirement in kind.requirements.items():
            named = (value for value in requirement.values if integer_of(value) is None)
            found.setdefault(key, set()).update(named)
        for offering in kind.offerings:
            found.setdefault(ZONE, set()).add(offering.zone)
            found.setdefault(ZONE_ID, set()).add(offering.zone_id)
    values = {key: frozenset(known) for key, known in found.items()}
    return KnownValues(values, "in this account and region") if values else None


@cache
def shipped() -> KnownValues:
    """Return the values that are known without an account: instance types, regions and their ordinary zones."""
    # only validation without an account reads the list
    from reservoir.manifests.ec2_names import REGIONS, SIZES

    types = frozenset(
        f"{family}.{size}" for family, sizes in SIZES.items() for size in sizes.split()
    )
    zones = frozenset(f"{region}{letter}" for region in REGIONS for letter in _LETTERS)
    values = {INSTANCE_TYPE: types, ZONE: zones, REGION: frozenset(REGIONS)}
    return KnownValues(values, "anywhere that this release knows of", frozenset(SIZES))
