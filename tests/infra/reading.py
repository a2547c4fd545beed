"""Reads CloudFormation templates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.iam.acknowledgements import as_reported

Resource = Mapping[str, Any]
Resources = Mapping[str, Resource]


def of_type(resources: Resources, kind: str) -> dict[str, Any]:
    """Return the properties of all resources of one type, by logical id."""
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == kind
    }


def as_list(value: Any) -> list[Any]:
    """IAM writes one as itself and several as a list."""
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Statement:
    """One allowing statement of an identity policy."""

    policy: str
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Any]]

    @property
    def condition_keys(self) -> set[str]:
        """What the conditions look at."""
        return {key for operator in self.conditions.values() for key in operator}


def policies_of_roles(resources: Resources) -> dict[str, Any]:
    """Return the properties of all policies, inline and managed, that the stack attaches to its roles."""
    managed = of_type(resources, "AWS::IAM::ManagedPolicy")
    attached = {
        name: properties for name, properties in managed.items() if properties.get("Roles")
    }
    return {**of_type(resources, "AWS::IAM::Policy"), **attached}


def policies_for_people(resources: Resources) -> dict[str, Any]:
    """Return the properties of the managed policies that nobody has until somebody attaches them."""
    return {
        name: properties
        for name, properties in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if not properties.get("Roles")
    }


def statements(resources: Resources, *, for_people: bool = False) -> Iterator[Statement]:
    """Yield the statements of all policies attached to roles, or of those for people."""
    policies = (
        policies_for_people(resources) if for_people else policies_of_roles(resources)
    )
    for name, properties in policies.items():
        for statement in properties["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            yield Statement(
                policy=name,
                sid=statement.get("Sid", ""),
                actions=tuple(as_list(statement["Action"])),
                resources=tuple(
                    as_reported(resource) for resource in as_list(statement["Resource"])
                ),
                conditions=statement.get("Condition", {}),
            )
