"""The size of each function, and how a queue or a schedule feeds it."""

from dataclasses import dataclass
from typing import Final

from reservoir.names import Function, Queue

# AWS waits for batches of more messages than this for a second at least.
BATCH_WITHOUT_WINDOW_MAX: Final = 10
LEAST_BATCHING_WINDOW_S: Final = 1


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """Size of one function and, when a queue feeds it, how."""

    timeout_s: int
    memory_mib: int
    queue: Queue | None = None
    batch_size: int = 1
    max_concurrency: int = 2  # of the queue's poller; 2 is the least that AWS accepts
    # How long a message is hidden while it is worked on. AWS advises six time-outs, which is also what a failed message
    # waits for its next try.
    hidden_timeouts: int = 6
    # How often a message may fail before it goes to the dead letters; AWS advises at least five for Lambda consumers,
    # because throttled receives count too.
    max_receive_count: int = 5
    every_min: int | None = None  # schedule
    # Of Lambda's concurrency, kept for it where the deployment asks for that; also the most that it can then have.
    reserved_concurrency: int | None = None

    @property
    def batching_window_s(self) -> int | None:
        """How long a message may wait for others of its batch; None: not at all."""
        return (
            LEAST_BATCHING_WINDOW_S if self.batch_size > BATCH_WITHOUT_WINDOW_MAX else None
        )


# Lambda gives CPU in proportion to memory: 1769 MiB is one core, below that start-up (imports) slows down.
FUNCTIONS: Final[dict[Function, FunctionSettings]] = {
    Function.INTAKE: FunctionSettings(
        30, 1024, Queue.DEMAND, batch_size=10, max_concurrency=5
    ),
    Function.DISCOVER_RESERVATIONS: FunctionSettings(
        60, 1024, every_min=1, reserved_concurrency=2
    ),
    # All instance types of a region with their prices: thousands of items over paged, throttled calls.
    Function.DISCOVER_OFFERINGS: FunctionSettings(600, 1769, every_min=12 * 60),
    # One planner at a time for a group of NodePools, whose wake-ups are one message group, and one for all
    # while few workloads wait (ADR 91); up to ten wake-ups collapse into one pass. A failed pass holds up its whole
    # group while its messages are hidden, and a pass too many is harmless: so hidden much shorter than usual.
    Function.PROVISION: FunctionSettings(
        90, 3008, Queue.PLANNING, batch_size=10, max_concurrency=8, hidden_timeouts=1
    ),
    # A batch is one CreateFleet call of seconds. EC2 refills five mutating calls a second.
    Function.LAUNCH: FunctionSettings(
        60, 1024, Queue.LAUNCHES, batch_size=2, max_concurrency=5
    ),
    # A spot market that collapses warns of thousands of instances within its two minutes: a hundred are read, announced
    # and written together (ADR 133). What fails in passing is brought back after 2, 4, 8 ... 60 s (the handler does
    # that), and what died with its function after 30: a notice is tried for six minutes, three times as long as it is
    # worth.
    Function.REACT: FunctionSettings(
        timeout_s=30,
        memory_mib=1024,
        queue=Queue.REACTIONS,
        batch_size=100,
        max_concurrency=5,
        hidden_timeouts=1,
        max_receive_count=10,
        reserved_concurrency=5,
    ),
    # timers come beside the sweep
    Function.EXPIRE: FunctionSettings(60, 1024, every_min=1, reserved_concurrency=3),
    # A pass takes up to 90 s, so that the next begins beside it.
    Function.DISRUPT: FunctionSettings(90, 3008, every_min=1, reserved_concurrency=2),
    Function.COLLECT: FunctionSettings(120, 1024, every_min=5, reserved_concurrency=1),
    # What happened is told when somebody asks, so that it may be late: two of these at once are enough for any day.
    Function.RECORD: FunctionSettings(60, 512, Queue.HISTORY, batch_size=10, every_min=10),
    Function.APPLY: FunctionSettings(60, 1024),
    Function.CHANGE_POLICY: FunctionSettings(60, 1024),
    # The nodes of a large gang report within a moment; facts of theirs may wait for each other.
    Function.FOLLOW: FunctionSettings(
        30, 1024, Queue.REPORTS, batch_size=10, max_concurrency=5
    ),
    Function.OPERATE: FunctionSettings(60, 1024),
}

CONSUMERS: Final[dict[Queue, Function]] = {
    settings.queue: function
    for function, settings in FUNCTIONS.items()
    if settings.queue is not None
}

SNAPSHOT_RETENTION_DAYS: Final = 30
