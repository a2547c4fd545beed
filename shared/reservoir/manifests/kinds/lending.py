"""Lending idle units of a class's reservations: how many, and when."""

from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from reservoir.core.model.node_class import Lending, LendingWindow
from reservoir.manifests.kinds.instance_settings import check_tag_key
from reservoir.manifests.kinds.node_pool import check_schedule, check_time_zone
from reservoir.manifests.parsing.fields import Duration, duration_s, without_nulls
from reservoir.manifests.parsing.model import Model

_MOST_WINDOWS: Final = 20
_MOST_TAGS: Final = 40  # EC2 allows 50; the product adds its own
_MOST_UNITS: Final = 1000  # EC2's limit for a reservation that is made


class LendingWindowSpec(Model):
    """For how long after each start of a schedule units are lent."""

    schedule: Annotated[str, Field(max_length=200), AfterValidator(check_schedule)] = Field(
        description="Cron expression of five fields, or @daily and its like."
    )
    duration: Duration
    time_zone: Annotated[str, Field(max_length=64), AfterValidator(check_time_zone)] = (
        Field(default="UTC", description="Time zone of the schedule.")
    )

    def to_core(self) -> LendingWindow:
        """Return the window of the core."""
        return LendingWindow(self.schedule, duration_s(self.duration), self.time_zone)


class LendingSpec(Model):
    """How idle units of the class's own on-demand reservations are lent as interruptible reservations."""

    keep_free: int = Field(
        default=0,
        ge=0,
        le=_MOST_UNITS,
        description="Units of each reservation that are not lent.",
    )
    after: Duration = Field(
        default="10m", description="For how long units are idle before more are lent."
    )
    windows: list[LendingWindowSpec] = Field(
        default_factory=list,
        max_length=_MOST_WINDOWS,
        description="When units are lent; none: at any time.",
    )
    tags: Annotated[
        dict[
            Annotated[str, AfterValidator(check_tag_key)],
            Annotated[str, Field(max_length=256)],
        ],
        BeforeValidator(without_nulls),
    ] = Field(
        default_factory=dict,
        max_length=_MOST_TAGS,
        description="Tags of what is lent, by which classes and accounts that borrow select it.",
    )

    def to_core(self) -> Lending:
        """Return the lending of the core."""
        return Lending(
            self.keep_free,
            duration_s(self.after),
            tuple(window.to_core() for window in self.windows),
            dict(sorted(self.tags.items())),
        )
