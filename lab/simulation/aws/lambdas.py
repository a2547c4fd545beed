"""Lambda: invocations of the real handlers, which overlap at their calls to the outside, die, and find warm processes.

Every call of a port that leaves the process passes :meth:`Environment.call`. It takes time, so that whatever else is to
happen by then happens first; and it may be throttled, be the last thing that the function did, or lose its answer.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any, Final

from greenlet import greenlet

from infra.config import FUNCTIONS
from lab.simulation.faults import Faults
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel, moment
from reservoir.names import Function
from reservoir.ports.errors import ThrottledError, UnknownOutcomeError
from reservoir.ports.state import ConflictError
from reservoir.runtime.composition.parts.outside import Process, running_in

HANDLERS: Final[Mapping[Function, Callable[[dict[str, Any], Any], Any]]] = {
    function: import_module(f"functions.{function}.handler").handler
    for function in Function
    # people's changes of policy come from the world
    if function not in (Function.APPLY, Function.CHANGE_POLICY)
}
# a plan loads them when it first needs them; here before workers are forked
for _module in ("improve", "lower_bound"):
    import_module(f"reservoir.core.solver.column_generation.{_module}")
# The SDK repeats what it got no answer to. The repeat of a conditional write then meets what the first has written.
_CONDITIONAL: Final = frozenset(
    {
        "node_claims.save",
        "node_claims.settle",
        "node_claims.return_replicas",
        "node_claims.finish_replicas",
        "workloads.put",
        "tallies.put",
        "discovery_turns.write",
        "policy.save_pause",
    }
)
_SLOW_S: Final = 10.0  # as much as the longest budget of a plan without teams
_SLOW_MOST_S: Final = 50.0  # less than what a planner remembers its own commits for
# what looking at the clock takes: with the usual budget, 25 looks end column generation
GLANCE_S: Final = 0.4
CLOCK_OFF_MAX: Final = 2 * SECOND
CLOCK_WRONG_MAX: Final = 4 * MINUTE  # AWS refuses what is signed five minutes off
_ANSWER_LATE_MAX: Final = 15 * SECOND
# listings of many pages, throttled in between
_PAGED: Final = frozenset({"ec2.list_visible", "ec2.list_owned"})
_LISTING_SLOW_MAX: Final = 50 * SECOND
_RESERVED: Final = 5  # concurrency of functions for which none is kept


@dataclass(frozen=True, slots=True)
class Aim:
    """A call at which a function dies whatever chance says: the ``number``-th of its kind, before or after it."""

    function: Function
    point: str
    number: int
    side: str  # before or after


class Killed(BaseException):
    """The function died here. Not an Exception, so that nothing in the product can catch it."""


@dataclass(slots=True)
class Run:
    """One invocation. ``outcome``: running, done, failed, killed or timed out."""

    number: int
    function: Function
    began_us: int
    deadline_us: int
    event: Mapping[str, Any] = field(default_factory=dict)
    pace: int = 1  # how much slower than usual its calls are
    outcome: str = "running"
    ended_us: int = 0
    answer: Any = None
    error: str = ""


class Environment:
    """An execution environment: one process with a clock of its own, frozen between its runs."""

    def __init__(
        self, lambdas: "Lambdas", function: Function, number: int, off_us: int
    ) -> None:
        self.lambdas = lambdas
        self.function = function
        self.number = number
        self.off_us = off_us
        self.run: Run | None = None
        self.is_old = lambdas.is_old(function)
        self.is_last_run = False  # its code is replaced
        self._glances = 0
        # while something was computed, since the last call to the outside
        self._lost_s = 0.0
        self.process: Process = lambdas.make_process(self)

    # --- what its process has of its own

    def now(self) -> datetime:
        """Return the time as this environment's clock has it."""
        return moment(self.lambdas.kernel.now_us + self.off_us)

    def monotonic_s(self) -> float:
        """Return seconds that grow each time: asked in the middle of a plan, where no simulated time passes."""
        self._glances += 1
        if self.lambdas.chance.hits("slow_solve", self.lambdas.faults().slow_solve):
            self._lost_s = min(self._lost_s + _SLOW_S, _SLOW_MOST_S)
        return self.lambdas.kernel.now_us / SECOND + self._glances * GLANCE_S + self._lost_s

    def pause(self, seconds: float) -> None:
        """Sleep."""
        self._wait(int(seconds * SECOND))

    # --- calls to the outside

    def call(self, point: str, effect: Callable[[], Any]) -> Any:
        """Make a call to the outside, as well as it goes."""
        lambdas, run = self.lambdas, self._running()
        faults = lambdas.faults()
        self._lost_s = 0
        chance = lambdas.chance
        latency = chance.between("latency", SECOND // 500, SECOND // 20) * run.pace
        if chance.hits("clock_jumps", faults.clock_jumps):
            self.off_us = chance.between(
                "clock", -lambdas.clock_off_max_us, lambdas.clock_off_max_us
            )
        if chance.hits("slow_call", faults.slow_call):
            latency += chance.between("latency", SECOND, 8 * SECOND)
        self._wait(latency)
        place = (self.function, point)
        lambdas.calls[place] += 1
        number = lambdas.calls[place]
        if chance.hits("killed_before", faults.killed_before) or lambdas.aims_at(
            place, number, "before"
        ):
            lambdas.kills_before[place] += 1
            self._die("killed", f"before {point}")
        if chance.hits("throttled", faults.throttled):
            raise ThrottledError("ThrottlingException", point)
        try:
            answer = effect()
        except Exception:
            # what was refused may be the last thing, too
            if lambdas.aims_at(place, number, "after"):
                lambdas.kills_after[place] += 1
                self._die("killed", f"after {point}")
            raise
        lambdas.told(self, point, answer)
        dies = point == "ec2.launch" and chance.hits("launch_dies", faults.launch_dies)
        if (
            dies
            or chance.hits("killed_after", faults.killed_after)
            or lambdas.aims_at(place, number, "after")
        ):
            lambdas.kills_after[place] += 1
            self._die("killed", f"after {point}")
        if chance.hits("answer_lost", faults.answer_lost):
            raise (
                ConflictError([point])
                if point in _CONDITIONAL
                else UnknownOutcomeError("ReadTimeout", point)
            )
        self._wait_for_answer(point)
        return answer

    def _wait_for_answer(self, point: str) -> None:
        """Wait where the answer takes longer than its effect."""
        chance, faults = self.lambdas.chance, self.lambdas.faults()
        if chance.hits("late_answer", faults.late_answer):
            self._wait(chance.between("late_answer", SECOND, _ANSWER_LATE_MAX))
        if point in _PAGED and chance.hits("slow_listing", faults.slow_listing):
            self._wait(chance.between("slow_listing", SECOND, _LISTING_SLOW_MAX))

    def _running(self) -> Run:
        run = self.run
        if run is None or run.outcome != "running":
            raise Killed("nothing runs here any more")
        return run

    def _wait(self, us: int) -> None:
        run = self._running()
        kernel = self.lambdas.kernel
        if kernel.now_us + us >= run.deadline_us:
            kernel.wait(max(0, run.deadline_us - kernel.now_us))
            self._die("timed out", "")
        kernel.wait(us)
        self._running()  # the world may have ended meanwhile

    def _die(self, outcome: str, why: str) -> None:
        run = self._running()
        run.outcome, run.error = outcome, why
        raise Killed(why)


class Port:
    """A port as one environment reaches it: every method is a call to the outside."""

    def __init__(self, name: str, behind: Any, environment: Environment) -> None:
        self._name = name
        self._behind = behind
        self._environment = environment

    def __getattr__(self, method: str) -> Any:
        target = getattr(self._behind, method)
        point = f"{self._name}.{method}"
        environment = self._environment

        def called(*arguments: Any, **options: Any) -> Any:
            return environment.call(point, partial(target, *arguments, **options))

        self.__dict__[method] = called  # found at once from now on
        return called


Done = Callable[[Run], None]


@dataclass
class Lambdas:
    """All functions. ``told`` hears of each call that had its effect, ``ended`` of each run that is over."""

    kernel: Kernel
    chance: Chance
    faults: Callable[[], Faults]
    make_process: Callable[[Environment], Process]
    told: Callable[[Environment, str, Any], None]
    ended: Callable[[Run], None]
    # whether new processes of it are of the release before
    is_old: Callable[[Function], bool]
    keeps_concurrency: bool = True
    aims: frozenset[Aim] = frozenset()
    clock_off_max_us: int = CLOCK_OFF_MAX
    calls: Counter[tuple[Function, str]] = field(default_factory=Counter)
    kills_before: Counter[tuple[Function, str]] = field(default_factory=Counter)
    kills_after: Counter[tuple[Function, str]] = field(default_factory=Counter)
    running: list[Environment] = field(default_factory=list)
    _idle: dict[Function, list[Environment]] = field(default_factory=dict)
    _environment_count: int = 0
    _run_count: int = 0

    def invoke(self, function: Function, event: dict[str, Any], done: Done) -> bool:
        """Start an invocation; False when as many as may run already do."""
        if not self.has_room(function):
            return False
        environment = self._environment(function)
        self._run_count += 1
        now = self.kernel.now_us
        deadline_us = now + FUNCTIONS[function].timeout_s * SECOND
        environment.run = run = Run(self._run_count, function, now, deadline_us, event)
        if self.chance.hits("slow_run", self.faults().slow_run):
            run.pace = self.chance.between("pace", 10, 100)
        self.running.append(environment)
        body = greenlet(partial(self._body, environment, run, event, done))
        self.kernel.after(0, body.switch)
        return True

    def has_room(self, function: Function) -> bool:
        """Whether one more may run at once."""
        return [environment.function for environment in self.running].count(
            function
        ) < self._most(function)

    def invoke_async(self, function: Function, event: dict[str, Any]) -> None:
        """Invoke as EventBridge does: tried again for a minute while too many run, and not at all after a failure."""
        self._try(function, event, self.kernel.now_us + 60 * SECOND)

    def aims_at(self, place: tuple[Function, str], number: int, side: str) -> bool:
        """Whether a function is to die at this call."""
        return bool(self.aims) and Aim(*place, number, side) in self.aims

    def stop(self) -> None:
        """End everything that runs: the world is over."""
        for environment in list(self.running):
            if environment.run is not None:
                environment.run.outcome = "killed"

    def set_clocks(self) -> None:
        """Let every clock be right."""
        for environment in [
            *self.running,
            *(each for idle in self._idle.values() for each in idle),
        ]:
            environment.off_us = 0

    def deploy(self) -> None:
        """Replace all functions: what runs ends, and nothing warm is left."""
        self.stop()
        self._idle.clear()

    def replace(self, function: Function) -> None:
        """Replace one function's code: what runs goes on to its end, and nothing warm is left."""
        self._idle.pop(function, None)
        for environment in self.running:
            environment.is_last_run |= environment.function is function

    def _try(self, function: Function, event: dict[str, Any], until_us: int) -> None:
        if (
            not self.invoke(function, event, _nothing_more)
            and self.kernel.now_us < until_us
        ):
            self.kernel.after(5 * SECOND, lambda: self._try(function, event, until_us))

    def _most(self, function: Function) -> int:
        settings = FUNCTIONS[function]
        if settings.queue is not None:
            return settings.max_concurrency
        return (
            settings.reserved_concurrency if self.keeps_concurrency else None
        ) or _RESERVED

    def _environment(self, function: Function) -> Environment:
        idle = self._idle.setdefault(function, [])
        if idle and not self.chance.hits("cold_start", self.faults().cold_start):
            return idle.pop(self.chance.between("warm", 0, len(idle) - 1))
        self._environment_count += 1
        off_us = 0
        if self.chance.hits("clock_off", self.faults().clock_off):
            off_us = self.chance.between(
                "clock", -self.clock_off_max_us, self.clock_off_max_us
            )
        return Environment(self, function, self._environment_count, off_us)

    def _body(
        self, environment: Environment, run: Run, event: dict[str, Any], done: Done
    ) -> None:
        try:
            with running_in(environment.process):
                run.answer = HANDLERS[run.function](event, None)
            run.outcome = "done" if run.outcome == "running" else run.outcome
        except Killed:
            pass  # its outcome says how
        except Exception as error:  # noqa: BLE001 - Lambda reports any failure, and goes on
            run.outcome, run.error = "failed", f"{type(error).__name__}: {error}"
        run.ended_us = self.kernel.now_us
        self.running.remove(environment)
        environment.run = None
        if run.outcome in ("done", "failed") and not environment.is_last_run:
            self._idle.setdefault(run.function, []).append(environment)
        self.ended(run)
        done(run)


def _nothing_more(_run: Run) -> None:
    """Nobody waits for the answer."""
