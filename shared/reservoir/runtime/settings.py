"""Settings of a function, read from its environment once, at cold start. The only place that reads it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Final

from reservoir import names
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.team import Ceiling
from reservoir.core.node_life.drain import (
    LONGEST_NOTICE,
    InstanceStatusPolicy,
    RebalancePolicy,
)
from reservoir.core.purchasing.book import Ceilings
from reservoir.core.safety.endings import Bounds
from reservoir.core.sharing.planning_groups import PLANNED_AT_ONCE_MAX
from reservoir.manifests.kinds.launch_limits import LaunchLimits
from reservoir.names import Queue, Table
from reservoir.runtime.ending_bounds import ending_bounds
from reservoir.runtime.environment import SettingsError, choice, switch, whole_number
from reservoir.runtime.launch_tags import launch_tags
from reservoir.runtime.scheduling_settings import (
    ceiling,
    purchase_ceilings,
    scheduling_policy,
    solve_budget,
)

REGION: Final = "AWS_REGION"  # set by Lambda
# Optional; names and default are Karpenter's. Memory that the hypervisor and the kernel keep, as a part of the type's.
VM_MEMORY_OVERHEAD_PERCENT: Final = "VM_MEMORY_OVERHEAD_PERCENT"
_DEFAULT_VM_MEMORY_OVERHEAD: Final = "0.075"
_DEFAULT_HISTORY_DAYS: Final = 14

# What the stack outputs beside them where it has something to say.
OPTIONAL: Final = (
    names.KMS_KEYS,
    names.METADATA_HTTP_TOKENS_POLICY,
    # A stack of 0.2.0 has none; the command line meets one while it updates it.
    names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN,
    *names.PLANNER_SETTINGS,
    names.PURCHASE_CEILING_MICRO_USD,
    names.PURCHASE_CEILING_MICRO_USD_PER_MONTH,
)
REQUIRED: Final = (
    *Table,
    *Queue,
    names.EVENT_BUS,
    names.DEMAND_DEAD_LETTER_QUEUE,
    names.SNAPSHOTS_BUCKET,
    names.DRAIN_SCHEDULE_GROUP,
    names.DRAIN_SCHEDULE_ROLE_ARN,
    names.DRAIN_SCHEDULE_TARGET_ARN,
    names.DEPLOYMENT,
    names.INSTANCE_ARN_PREFIX,
    REGION,
)


class HttpTokens(StrEnum):
    """Whether instances must read their metadata by token; the names are EC2's."""

    REQUIRED = "required"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the stack gives its functions."""

    tables: Mapping[Table, str]
    queue_urls: Mapping[Queue, str]
    event_bus: str
    demand_dead_letter_queue_url: str
    snapshots_bucket: str
    drain_schedule_group: str
    drain_schedule_role_arn: str
    drain_schedule_target_arn: str
    deployment: str
    instance_arn_prefix: str
    region: str
    vm_memory_overhead: Fraction
    drain_schedule_dead_letters_arn: str | None = None
    unpublished_events_queue_url: str | None = None
    rebalance_policy: RebalancePolicy = RebalancePolicy.IGNORE
    instance_status_policy: InstanceStatusPolicy = InstanceStatusPolicy.REPLACE
    scheduling: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    solve_budget: timedelta = timedelta(seconds=10)
    # no deployment chooses; the simulation does
    planned_at_once_max: int = PLANNED_AT_ONCE_MAX
    ceiling: Ceiling = field(default_factory=Ceiling)
    purchase_ceilings: Ceilings = field(default_factory=Ceilings)
    launch_limits: LaunchLimits = field(default_factory=LaunchLimits)
    launch_tags: Mapping[str, str] = field(default_factory=dict)
    ending_bounds: Bounds = field(default_factory=Bounds)
    longest_notice: timedelta = LONGEST_NOTICE
    history_kept: timedelta = timedelta(days=14)
    publishes_metrics: bool = False
    otlp_endpoint: str | None = None

    @property
    def account_id(self) -> str:
        """The account of the deployment."""
        return self.instance_arn_prefix.split(":")[4]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read everything; raises SettingsError with every name that is missing."""
        missing = [name for name in REQUIRED if not environment.get(name)]
        if missing:
            raise SettingsError(f"missing from the environment: {', '.join(missing)}")
        return cls(
            tables={table: environment[table] for table in Table},
            queue_urls={queue: environment[queue] for queue in Queue},
            event_bus=environment[names.EVENT_BUS],
            demand_dead_letter_queue_url=environment[names.DEMAND_DEAD_LETTER_QUEUE],
            snapshots_bucket=environment[names.SNAPSHOTS_BUCKET],
            drain_schedule_group=environment[names.DRAIN_SCHEDULE_GROUP],
            drain_schedule_role_arn=environment[names.DRAIN_SCHEDULE_ROLE_ARN],
            drain_schedule_target_arn=environment[names.DRAIN_SCHEDULE_TARGET_ARN],
            drain_schedule_dead_letters_arn=environment.get(
                names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN
            )
            or None,
            unpublished_events_queue_url=_beside(
                environment[Queue.REACTIONS],
                environment[names.SNAPSHOTS_BUCKET] + names.UNPUBLISHED_EVENTS_SUFFIX,
            ),
            deployment=environment[names.DEPLOYMENT],
            instance_arn_prefix=environment[names.INSTANCE_ARN_PREFIX],
            region=environment[REGION],
            vm_memory_overhead=_part(
                environment.get(VM_MEMORY_OVERHEAD_PERCENT, _DEFAULT_VM_MEMORY_OVERHEAD)
            ),
            rebalance_policy=choice(
                environment, names.REBALANCE_POLICY, RebalancePolicy.IGNORE
            ),
            instance_status_policy=choice(
                environment, names.INSTANCE_STATUS_POLICY, InstanceStatusPolicy.REPLACE
            ),
            scheduling=scheduling_policy(environment),
            solve_budget=solve_budget(environment),
            ceiling=ceiling(environment),
            purchase_ceilings=purchase_ceilings(environment),
            launch_limits=LaunchLimits(
                kms_keys=tuple(
                    key for key in environment.get(names.KMS_KEYS, "").split(",") if key
                ),
                tokens_required=choice(
                    environment, names.METADATA_HTTP_TOKENS_POLICY, HttpTokens.REQUIRED
                )
                is HttpTokens.REQUIRED,
            ),
            launch_tags=launch_tags(environment),
            ending_bounds=ending_bounds(environment),
            longest_notice=timedelta(
                seconds=whole_number(
                    environment, names.LONGEST_NOTICE_S, int(LONGEST_NOTICE.total_seconds())
                )
            ),
            history_kept=timedelta(
                days=whole_number(environment, names.HISTORY_DAYS, _DEFAULT_HISTORY_DAYS)
            ),
            publishes_metrics=switch(environment, names.PUBLISH_METRICS, default=False),
            otlp_endpoint=environment.get(names.OTLP_ENDPOINT) or None,
        )


def _beside(queue_url: str, name: str) -> str:
    """Return the URL of another queue of the same account and region."""
    return f"{queue_url.rpartition('/')[0]}/{name}"


def _part(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise SettingsError(f"{VM_MEMORY_OVERHEAD_PERCENT} must be a number") from error
    if not 0 <= value < 1:
        raise SettingsError(f"{VM_MEMORY_OVERHEAD_PERCENT} must be at least 0 and below 1")
    return value
