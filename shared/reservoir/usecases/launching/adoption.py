"""Instances that a batch launched and whose outcome was not recorded: found by the batch's tag."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchedInstance,
    LaunchOutcome,
)
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.ec2 import InstanceReader
from reservoir.ports.state import NodeClaimStore
from reservoir.ports.system import Clock

# Batches are launched within seconds of their plan. An intent that is recorded later than this after it may be the
# second one, if the tables were restored in between.
LATE_INTENT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Adoption:
    """Takes over what carries a batch's tag and belongs to no claim yet.

    Leases settle at EC2's launch time, not now: the next observation contains them already.
    """

    instances: InstanceReader
    claims: NodeClaimStore
    clock: Clock

    def of(
        self, attempt: LaunchAttempt, *, alive_before: datetime | None = None
    ) -> LaunchOutcome:
        """Return the instances that the batch has launched, ended ones included.

        ``alive_before``: only instances that were launched before then and have not ended. Raises UnreadableRowsError
        when the rows that name their owners cannot be read.
        """
        found = self.instances.list_batch(attempt.batch_id)
        taken = self.claims.find_by_instance([instance.id for instance in found])
        ours = [
            LaunchedInstance(
                i.id,
                i.instance_type,
                i.zone,
                i.zone_id,
                i.subnet_id,
                i.image_id,
                i.launched_at,
            )
            for i in found
            # a person who copies an instance's tags does not copy its launch template
            if i.id not in taken and i.launch_template_id is not None
            if alive_before is None or (i.launched_at < alive_before and not i.is_gone)
        ]
        return LaunchOutcome(
            instances=tuple(ours), launched_at=self.clock.now(), adopted=True
        )

    def of_forgotten(
        self, attempt: LaunchAttempt, claims: Mapping[str, NodeClaim]
    ) -> LaunchOutcome:
        """Return the instances that were launched before the first recorded intent: restored tables may lack some.

        EC2 is asked only where that intent came long after the plan, so not for launches as they usually are. Raises
        UnreadableRowsError as :meth:`of` does.
        """
        planned_at = min(
            (claim.created_at for claim in claims.values()), default=attempt.recorded_at
        )
        if attempt.number > 1 or attempt.recorded_at - planned_at < LATE_INTENT:
            return LaunchOutcome(launched_at=attempt.recorded_at)
        return self.of(attempt, alive_before=attempt.recorded_at)
