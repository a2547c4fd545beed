"""Faults that a test asks for: refused calls, lost answers, refused launches."""

from dataclasses import dataclass, field

from lab.embedded.ec2.account.state import LaunchSpec
from lab.embedded.ec2.api.errors import Ec2Error, ResponseLostError


@dataclass
class CallFault:
    """The next ``count`` calls of ``operation`` fail with ``code`` before they have any effect.

    ``dry_run``: only dry runs, or only calls that are none; None: all.
    """

    operation: str
    code: str
    message: str
    count: int = 1
    status: int = 400
    dry_run: bool | None = None

    def matches(self, operation: str, *, is_dry_run: bool) -> bool:
        """Whether the call is one of those."""
        return self.operation == operation and self.dry_run in (None, is_dry_run)


@dataclass
class LaunchFault:
    """The next ``count`` matching launches are refused, or end before they run, with ``code``.

    None means any, or for good.
    """

    code: str
    message: str
    instance_type: str | None = None
    zone: str | None = None
    market: str | None = None
    count: int | None = None
    reservation_id: str | None = None

    def matches(self, spec: LaunchSpec) -> bool:
        """Whether this fault is meant for a launch."""
        wanted = (self.instance_type, self.zone, self.market, self.reservation_id)
        actual = (
            spec.instance_type,
            spec.zone.name,
            spec.market.value,
            spec.target.reservation_id,
        )
        return all(
            want is None or want == have for want, have in zip(wanted, actual, strict=True)
        )


@dataclass
class Faults:
    """The faults that are waiting to happen."""

    calls: list[CallFault] = field(default_factory=list)
    launches: list[LaunchFault] = field(default_factory=list)
    starts: list[LaunchFault] = field(default_factory=list)
    lost_responses: dict[str, int] = field(default_factory=dict)
    # by operation: how the call after one whose answer was lost is refused
    refused_repeats: dict[str, str] = field(default_factory=dict)

    def before_call(self, operation: str, *, is_dry_run: bool = False) -> None:
        """Refuse the call if a fault waits for it.

        Raises
        ------
        Ec2Error
            What a test has ordered.
        """
        matching = (f for f in self.calls if f.matches(operation, is_dry_run=is_dry_run))
        fault = next(matching, None)
        if fault is None:
            return
        fault.count -= 1
        if fault.count <= 0:
            self.calls.remove(fault)
        raise Ec2Error(fault.code, fault.message, fault.status)

    def after_call(self, operation: str) -> None:
        """Lose the answer of a call that has taken effect, if a fault waits for it.

        Raises
        ------
        ResponseLostError
            The answer is lost.
        """
        left = self.lost_responses.get(operation, 0)
        if left > 0:
            self.lost_responses[operation] = left - 1
            code = self.refused_repeats.get(operation)
            if code is not None:
                self.calls.append(CallFault(operation, code, "Refused by a test."))
            raise ResponseLostError(operation)

    def before_launch(self, spec: LaunchSpec) -> None:
        """Refuse one launch if a fault waits for it.

        Raises
        ------
        Ec2Error
            What a test has ordered.
        """
        fault = _used(self.launches, spec)
        if fault is not None:
            raise Ec2Error(fault.code, fault.message)

    def at_start(self, spec: LaunchSpec) -> tuple[str, str] | None:
        """Return the state reason with which an instance ends instead of running, if a fault waits for it."""
        fault = _used(self.starts, spec)
        return None if fault is None else (fault.code, f"{fault.code}: {fault.message}")


def _used(faults: list[LaunchFault], spec: LaunchSpec) -> LaunchFault | None:
    """Return the fault that is meant for a launch, and count it."""
    fault = next((f for f in faults if f.matches(spec)), None)
    if fault is not None and fault.count is not None:
        fault.count -= 1
        if fault.count <= 0:
            faults.remove(fault)
    return fault
