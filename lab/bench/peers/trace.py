"""What happens to a fleet, drawn from a seed: work that comes and goes, reservations, and how long spot nodes last.

Nothing in it knows who plays it. Times are seconds from the beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
_GIB_A_CPU: Final = (2, 4, 8)  # of the families c, m and r
_SERVICE_MILLICORES: Final = (250, 500, 1000, 2000, 4000)
_JOB_MILLICORES: Final = (1000, 2000, 4000, 8000)
_ANY: Final = ("reserved", "spot", "on-demand")
_NO_SPOT: Final = ("reserved", "on-demand")


@dataclass(frozen=True, slots=True)
class Job:
    """Equal replicas that are wanted for a while."""

    name: str
    at_s: float
    ends_s: float
    replicas: int
    millicores: int
    mebibytes: int

    @property
    def requests(self) -> Mapping[str, str]:
        """What one replica asks for."""
        return {"cpu": f"{self.millicores}m", "memory": f"{self.mebibytes}Mi"}


@dataclass(frozen=True, slots=True)
class Units:
    """An on-demand reservation, from when on, and until when it is cancelled."""

    instance_type: str
    zone: int
    count: int
    from_s: float = 0.0
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One world. ``spot_life_s`` is the mean time after which EC2 takes a spot instance back."""

    seed: int
    hours: float
    jobs: Sequence[Job]
    reservations: Sequence[Units]
    markets: Sequence[str]
    spot_life_s: float


def services(seed: int, hours: float = 6.0, scale: float = 1.0) -> Trace:
    """Services of several replicas that stay for hours; half of what they need is reserved."""
    rng = Random(f"{seed}/services")
    standing = round(40 * scale)
    stay_s = 3 * HOUR_S
    jobs = [
        _service(rng, number, rng.uniform(MINUTE_S, 2 * MINUTE_S), stay_s)
        for number in range(standing)
    ]
    at_s = 2 * MINUTE_S
    while (at_s := at_s + rng.expovariate(standing / stay_s)) < hours * HOUR_S:
        jobs.append(_service(rng, len(jobs), at_s, stay_s))
    reservations = [
        Units("m6i.4xlarge", 0, max(1, round(6 * scale))),
        Units("c6i.2xlarge", 1, max(1, round(6 * scale))),
        Units("r6i.2xlarge", 0, max(1, round(4 * scale))),
    ]
    return Trace(seed, hours, jobs, reservations, _ANY, 8 * HOUR_S)


def batch(seed: int, hours: float = 6.0, scale: float = 1.0) -> Trace:
    """Bursts of single replicas that run for minutes; few units of many types are reserved, spot goes often."""
    rng = Random(f"{seed}/batch")
    jobs: list[Job] = []
    at_s = MINUTE_S  # the deployment finds what there is
    while (at_s := at_s + rng.expovariate(1 / (20 * MINUTE_S))) < hours * HOUR_S:
        over_s = rng.uniform(3, 40)
        for _ in range(max(1, round(rng.randint(20, 80) * scale))):
            begins_s = at_s + rng.uniform(0, over_s)
            jobs.append(
                _job(
                    rng,
                    len(jobs),
                    begins_s,
                    1,
                    rng.uniform(5, 40) * MINUTE_S,
                    rng.choice(_JOB_MILLICORES),
                )
            )
    types = [f"{family}6i.{size}" for family in "cmr" for size in ("xlarge", "4xlarge")]
    reservations = [Units(name, rng.randint(0, 1), rng.randint(1, 3)) for name in types]
    return Trace(seed, hours, jobs, reservations, _ANY, 3 * HOUR_S)


def contended(seed: int, hours: float = 6.0, scale: float = 1.0) -> Trace:
    """Replicas that fill a node and small ones want the same reserved units; some are made late, some cancelled."""
    rng = Random(f"{seed}/contended")
    jobs: list[Job] = []
    at_s = MINUTE_S  # the deployment finds what there is
    while (at_s := at_s + rng.expovariate(scale / (4 * MINUTE_S))) < hours * HOUR_S:
        is_large = rng.random() < 0.4
        cores = 14_000 if is_large else rng.choice(_SERVICE_MILLICORES)
        stay_s = rng.expovariate(1 / (1.5 * HOUR_S)) + 5 * MINUTE_S
        jobs.append(
            _job(
                rng,
                len(jobs),
                at_s,
                rng.randint(1, 3 if is_large else 6),
                stay_s,
                cores,
                gib_a_cpu=4,
            )
        )
    units = max(1, round(8 * scale))
    reservations = [
        Units("m6i.4xlarge", 0, units),
        Units("m6i.4xlarge", 1, units, until_s=hours * HOUR_S * 0.6),
        Units("m6i.8xlarge", 0, max(1, units // 2), from_s=hours * HOUR_S * 0.3),
    ]
    return Trace(seed, hours, jobs, reservations, _NO_SPOT, 8 * HOUR_S)


def _service(rng: Random, number: int, at_s: float, stay_s: float) -> Job:
    cores = rng.choice(_SERVICE_MILLICORES)
    return _job(
        rng, number, at_s, rng.randint(1, 12), rng.expovariate(1 / stay_s) + MINUTE_S, cores
    )


def _job(
    rng: Random,
    number: int,
    at_s: float,
    replicas: int,
    stay_s: float,
    millicores: int,
    gib_a_cpu: int | None = None,
) -> Job:
    gib = rng.choice(_GIB_A_CPU) if gib_a_cpu is None else gib_a_cpu
    # Four fifths of what the family has for a core: a node's own processes take the rest.
    mebibytes = millicores * gib * 1024 * 4 // 5 // 1000
    return Job(f"job-{number:05d}", at_s, at_s + stay_s, replicas, millicores, mebibytes)
