"""One store of tags for moto's resources and ours, with CreateTags, DeleteTags and DescribeTags over it."""

from collections.abc import Iterable, Mapping
from typing import Any

from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, page, select
from lab.embedded.ec2.api.moto_bridge import MotoEc2

TAG_LIMIT = 50
_TYPES = {
    "cr": "capacity-reservation",
    "cb": "capacity-block",
    "crcq": "capacity-reservation-cancellation-quote",
    "crmq": "capacity-reservation-modification-quote",
    "fleet": "fleet",
    "i": "instance",
    "lt": "launch-template",
    "pg": "placement-group",
    "vol": "volume",
    "eni": "network-interface",
    "subnet": "subnet",
    "sg": "security-group",
    "vpc": "vpc",
    "ami": "image",
    "rtb": "route-table",
    "igw": "internet-gateway",
    "nat": "natgateway",
    "snap": "snapshot",
    "key": "key-pair",
}
TagRow = tuple[str, str, str]


class TagStore:
    """Tags by resource id, kept where moto keeps those of its own resources."""

    def __init__(self, moto: MotoEc2) -> None:
        self._tags: dict[str, dict[str, str]] = moto.backend.tags

    def of(self, resource_id: str) -> Mapping[str, str]:
        """Return the tags of a resource; none for one that has never been tagged."""
        return self._tags.get(resource_id, {})

    def rendered(self, resource_id: str) -> list[dict[str, str]] | None:
        """Return the tags in an answer's form, sorted by key, or None when there are none."""
        return [
            {"Key": key, "Value": value}
            for key, value in sorted(self.of(resource_id).items())
        ] or None

    def put(self, resource_id: str, tags: Mapping[str, str]) -> None:
        """Add or replace tags.

        Raises
        ------
        Ec2Error
            ``TagLimitExceeded`` past 50 tags that are not AWS's own.
        """
        merged = {**self.of(resource_id), **tags}
        refuse_too_many(merged)
        if merged:
            self._tags[resource_id] = merged

    def remove(self, resource_id: str, tags: Iterable[Mapping[str, Any]]) -> None:
        """Remove tags by key, or by key and value when a value is given; all of one's own without any."""
        kept = dict(self.of(resource_id))
        for key, value in list(kept.items()):
            if any(tag["Key"] == key and tag.get("Value") in (None, value) for tag in tags):
                del kept[key]
        self._tags[resource_id] = kept

    def drop(self, resource_id: str) -> None:
        """Forget all tags of a resource, AWS's own too."""
        self._tags.pop(resource_id, None)

    def rows(self) -> list[TagRow]:
        """Return (resource id, key, value) of every tag, in a fixed order."""
        rows: list[TagRow] = []
        for resource, tags in self._tags.items():
            rows += [(resource, key, value) for key, value in tags.items()]
        return sorted(rows)


def refuse_too_many(tags: Mapping[str, str]) -> None:
    """Refuse more than 50 tags on one resource; AWS's own do not count.

    Raises
    ------
    Ec2Error
        ``TagLimitExceeded``.
    """
    if sum(not key.startswith("aws:") for key in tags) > TAG_LIMIT:
        raise Ec2Error(
            "TagLimitExceeded",
            "The maximum number of Tags for a resource has been reached.",
        )


def from_specifications(
    specifications: Iterable[Mapping[str, Any]] | None, allowed: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Return tags by resource type from ``TagSpecifications``.

    Raises
    ------
    Ec2Error
        For a resource type that the operation cannot tag, a repeated key, or a key of AWS's own.
    """
    found: dict[str, dict[str, str]] = {}
    for specification in specifications or ():
        resource_type = specification.get("ResourceType", "")
        if resource_type not in allowed:
            raise invalid_value(
                f"'{resource_type}' is not a valid taggable resource type for this operation."
            )
        tags = found.setdefault(resource_type, {})
        for tag in specification.get("Tags", []):
            key = tag.get("Key", "")
            if key in tags:
                raise Ec2Error("InvalidParameter", f"Duplicate tag key '{key}' specified.")
            if not key or key.startswith("aws:"):
                raise invalid_value("Tag keys must not be empty or start with 'aws:'.")
            tags[key] = tag.get("Value", "")
    return found


def resource_type(resource_id: str) -> str:
    """Return EC2's name for the kind of resource behind an id."""
    return _TYPES.get(resource_id.partition("-")[0], "")


def describe_tags(store: TagStore, parameters: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeTags.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    readers: Readers[TagRow] = {
        "resource-id": lambda row: row[0],
        "resource-type": lambda row: resource_type(row[0]),
        "key": lambda row: row[1],
        "value": lambda row: row[2],
    }
    found = select(
        store.rows(), parameters.get("Filters"), readers, lambda row: {row[1]: row[2]}
    )
    rows, token = page(found, parameters, default=1000, minimum=5, maximum=1000)
    tags = [
        {"ResourceId": r, "ResourceType": resource_type(r), "Key": key, "Value": value}
        for r, key, value in rows
    ]
    return {"Tags": tags} | ({"NextToken": token} if token else {})
