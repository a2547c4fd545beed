"""Selector terms of an EC2NodeClass: which reservations, subnets, security groups and images it may use.

The terms of a list are ORed, the fields of a term ANDed (R-87).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from reservoir.core.model.node_class import CapacityReservationSelectorTerm, SelectorTerm
from reservoir.manifests.parsing.fields import AccountId, an_id, broken, matching
from reservoir.manifests.parsing.model import Contradiction, Model

MOST_TERMS: Final = 30


def _check_tag(text: str) -> str:
    if not text:
        raise broken("tag", "must not be empty; '*' as a value means that the key exists")
    return text


TagFilterText = Annotated[str, Field(max_length=256), AfterValidator(_check_tag)]
TagFilters = Annotated[
    dict[TagFilterText, TagFilterText],
    Field(
        min_length=1, max_length=20, description="'*' as a value means that the key exists."
    ),
]
ReservationId = Annotated[str, an_id("cr")]
ResourceGroupArn = Annotated[
    str,
    AfterValidator(
        matching(
            "arn",
            r"^arn:aws[a-z-]{0,20}:resource-groups:[a-z0-9-]{1,30}:[0-9]{12}:group/[A-Za-z0-9_.-]{1,300}$",
            "must be the ARN of a resource group: arn:aws:resource-groups:region:account:group/name",
        )
    ),
]
# The function that puts units into it may change groups of this name alone.
ReclaimGroupArn = Annotated[
    str,
    AfterValidator(
        matching(
            "arn",
            r"^arn:aws[a-z-]{0,20}:resource-groups:[a-z0-9-]{1,30}:[0-9]{12}:group/reservoir-[A-Za-z0-9_.-]{1,290}$",
            "must be the ARN of a resource group whose name begins with reservoir-:"
            " arn:aws:resource-groups:region:account:group/reservoir-name",
        )
    ),
]


class SelectorTermModel(Model):
    """A term needs something to select by, and an id stands alone."""

    selecting: ClassVar[tuple[str, ...]] = ()
    exclusive: ClassVar[tuple[str, ...]] = ("id",)

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the term selects, and that what identifies one thing has no company (R-89, R-90)."""
        given = [name for name, value in raw.items() if value is not None]
        if not set(given) & set(cls.selecting):
            yield Contradiction(
                "", "selector-term", f"needs at least one of {', '.join(cls.selecting)}"
            )
        for name in cls.exclusive:
            others = sorted(str(other)[:60] for other in given if other != name)
            if name in given and others:
                yield Contradiction(
                    name, "selector-term", f"cannot be combined with {', '.join(others)}"
                )


class ReservationTerm(SelectorTermModel):
    """Selects capacity reservations: On-Demand Capacity Reservations, Capacity Blocks and interruptible ones."""

    selecting: ClassVar[tuple[str, ...]] = (
        "id",
        "tags",
        "instanceMatchCriteria",
        "reservationGroupARN",
    )

    id: ReservationId | None = None
    owner_id: AccountId | None = Field(default=None, alias="ownerID")
    tags: TagFilters | None = None
    instance_match_criteria: Literal["open", "targeted"] | None = None
    reservation_group_arn: ResourceGroupArn | None = Field(
        default=None,
        alias="reservationGroupARN",
        description="All reservations in this resource group.",
    )

    def to_core(self) -> CapacityReservationSelectorTerm:
        """Return the term of the core."""
        return CapacityReservationSelectorTerm(
            id=self.id,
            owner_id=self.owner_id,
            tags=dict(sorted((self.tags or {}).items())),
            instance_match_criteria=self.instance_match_criteria,
            reservation_group_arn=self.reservation_group_arn,
        )


class SubnetTerm(SelectorTermModel):
    """Selects subnets."""

    selecting: ClassVar[tuple[str, ...]] = ("id", "tags")

    id: (
        Annotated[
            str,
            AfterValidator(
                matching(
                    "id",
                    r"^subnet-[0-9a-z]{1,40}$",
                    "must be subnet- and lower-case letters and digits",
                )
            ),
        ]
        | None
    ) = None
    tags: TagFilters | None = None

    def to_core(self) -> SelectorTerm:
        """Return the term of the core."""
        return SelectorTerm(id=self.id, tags=dict(sorted((self.tags or {}).items())))


class SecurityGroupTerm(SelectorTermModel):
    """Selects security groups; ``name`` is the group's name, not its Name tag."""

    selecting: ClassVar[tuple[str, ...]] = ("id", "name", "tags")
    exclusive: ClassVar[tuple[str, ...]] = ("id", "name")

    id: Annotated[str, an_id("sg")] | None = None
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    tags: TagFilters | None = None

    def to_core(self) -> SelectorTerm:
        """Return the term of the core."""
        return SelectorTerm(
            id=self.id, name=self.name, tags=dict(sorted((self.tags or {}).items()))
        )
