"""Write a checkpoint whenever a node of "ci/build" must go, until none has for IDLE_S seconds.

python answer_drains.py DEMAND_QUEUE_URL EVENTS_QUEUE_URL IDLE_S
"""

import sys

from reservoir.client import Client
from reservoir.client.events import NodeDraining


def save(notice: NodeDraining) -> None:
    """Save what runs there; returning says that it has left, and failing that it has not."""
    print(
        f"{notice.node.node_claim} goes by {notice.deadline:%H:%M:%S} ({notice.reason}): checkpoint written"
    )


*queues, idle_s = sys.argv[1:]
# Asked for by name, so that a drain is handled also if its notice came while nobody listened.
Client.connect(*queues).on_draining(save, "ci/build", idle_s=float(idle_s))
