"""Which mishaps a run has, and how likely each is. A seed has some of them only, so that each is met alone too."""

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of mishaps: of a call, of an event, of a minute. 0: never."""

    # calls of a function to the outside
    killed_before: float = 0.004
    killed_after: float = 0.004
    throttled: float = 0.01
    answer_lost: float = 0.006
    partly_saved: float = 0.05  # save_many leaves rows out
    slow_call: float = 0.02
    # functions
    slow_run: float = 0.15
    launch_dies: float = 0.1  # right after EC2 was asked
    cold_start: float = 0.1
    clock_off: float = 0.3  # of an environment: its clock is up to two seconds off
    # messages and events
    message_doubled: float = 0.05
    message_late: float = 0.05
    event_lost: float = 0.1
    event_doubled: float = 0.1
    event_late: float = 0.1
    timer_lost: float = 0.25
    # DynamoDB and EC2
    index_lags: float = 0.2
    count_lags: float = 0.5
    view_lags: float = 0.2
    # each minute
    schedule_stops: float = 0.02
    no_capacity: float = 0.08
    spot_reclaimed: float = 0.08
    outsider_takes: float = 0.08
    reservation_changes: float = 0.05
    denied: float = 0.01
    launches_throttled: float = 0.02
    policy_changes: float = 0.03
    subnet_fills: float = 0.03
    # each launched instance
    never_runs: float = 0.04
    becomes_unhealthy: float = 0.04
    # each minute, of the tables
    restored: float = 0.02
    # each minute: the key of the nodes' volumes may not be used for a while
    key_denied: float = 0.03
    # each call: the function's clock is set anew
    clock_jumps: float = 0.003
    # each delivery: the hidden time of its messages runs out while the function is at work
    hidden_short: float = 0.03
    # each call: its answer comes seconds after its effect
    late_answer: float = 0.01
    # each long listing: its first page is older than its answer by seconds
    slow_listing: float = 0.2
    # Those from here on only few seeds have.
    # each launch: EC2 turns out to have no more of that; or launches a part, and says nothing of the rest
    runs_dry: float = 0.15
    partly_launched: float = 0.2
    # each minute: EC2 refuses all launches for half an hour
    outage: float = 0.1
    # each time that a schedule fires: it does so twice
    schedule_doubled: float = 0.15
    # each workload that is submitted: whoever did takes it back within seconds
    taken_back: float = 0.3
    # each look at the time in a plan: the machine is so slow that its time may be over
    slow_solve: float = 0.05
    # each request to publish: the outbound bus refuses it
    bus_refuses: float = 0.1


NO_FAULTS: Final = Faults(**{each.name: 0.0 for each in fields(Faults)})
_KEPT_SHARE: Final = 0.4
_KEPT_SELDOM: Final = 0.15
# They came last, and seeds without them play as they did before.
_SELDOM: Final = frozenset(
    {
        "runs_dry",
        "partly_launched",
        "outage",
        "schedule_doubled",
        "taken_back",
        "slow_solve",
        "bus_refuses",
    }
)


def drawn(random: Random, usual: Faults | None = None) -> Faults:
    """Return the mishaps of a seed: each kind with some probability, and then seldom, as usual or often."""
    given = Faults() if usual is None else usual
    chosen = {
        each.name: min(0.5, getattr(given, each.name) * random.choice((0.5, 1, 3)))
        if random.random() < (_KEPT_SELDOM if each.name in _SELDOM else _KEPT_SHARE)
        else 0.0
        for each in fields(Faults)
    }
    return replace(NO_FAULTS, **chosen)
