"""How many nodes may end within an hour, by kind of ending; what a deployment does not choose has the default."""

from typing import Annotated

from pydantic import Field

from reservoir.manifests.parsing.model import Model

# What passed within the hour is kept by id in one row, and DynamoDB's rows hold 400 KB.
_COUNT_MAX = 5_000
_Count = Annotated[int, Field(ge=0, le=_COUNT_MAX)]


class EndingBound(Model):
    """So many may end within an hour: a share of the fleet, but some always, and never more."""

    share_percent: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="Of the fleet, with what ended within the hour."
    )
    least_count: _Count | None = Field(
        default=None, description="So many always, however small the fleet."
    )
    most_count: _Count | None = Field(
        default=None, description="Never more, however large the fleet."
    )


class EndingBounds(Model):
    """The safety envelope's bounds."""

    orphans: EndingBound | None = Field(
        default=None, description="Instances that no claim knows. 10 %, 3, 50."
    )
    vanished: EndingBound | None = Field(
        default=None,
        description="Claims whose instances EC2 does not show any more. 10 %, 5, 50.",
    )
    deleted_pools: EndingBound | None = Field(
        default=None, description="Nodes whose NodePool was deleted. 25 %, 5, 100."
    )
    disruption: EndingBound | None = Field(
        default=None,
        description="Drift, consolidation and rebalance recommendations. 50 %, 20, 500.",
    )
    expiry: EndingBound | None = Field(
        default=None, description="Nodes older than `expireAfter`. 50 %, 20, 500."
    )
    unhealthy: EndingBound | None = Field(
        default=None, description="Nodes whose status checks fail. 20 %, 3, 50."
    )
    surplus: EndingBound | None = Field(
        default=None,
        description="Empty nodes, and nodes whose last replicas were withdrawn. 100 %, 100, 1,000.",
    )

    requested: EndingBound | None = Field(
        default=None,
        description="Nodes that operators drain or delete by hand. 20 %, 10, 100.",
    )

    def chosen(self) -> dict[str, dict[str, int]]:
        """Return the chosen bounds, by the kinds' own names."""
        given = self.model_dump(by_alias=False, exclude_none=True)
        return {kind.replace("_", "-"): _numbers(getattr(self, kind)) for kind in given}


def _numbers(bound: EndingBound) -> dict[str, int]:
    return bound.model_dump(by_alias=True, exclude_none=True)
