"""The emulated EC2 as its host and its tests see it: requests in, answers and events out."""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

from moto.core.exceptions import ServiceException

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.agenda import Clock
from lab.embedded.ec2.account.events import Event
from lab.embedded.ec2.account.state import Instance
from lab.embedded.ec2.account.world import create_world
from lab.embedded.ec2.api.client import bound_client
from lab.embedded.ec2.api.errors import Ec2Error, ResponseLostError
from lab.embedded.ec2.api.protocol import Call, Ec2Protocol, Reply
from lab.embedded.ec2.control import actions as control
from lab.embedded.ec2.market.pricing_service import PricingService
from lab.embedded.ec2.operations import DRY_RUNS, OPERATIONS
from lab.embedded.ec2.reservations import resource_groups

# Operations whose ClientToken EC2 honours.
_IDEMPOTENT: Final = frozenset(
    {
        "CreateFleet",
        "RunInstances",
        "CreateCapacityReservation",
        "CreateCapacityReservationBySplitting",
        "CreateCapacityReservationCancellationQuote",
        "CreateCapacityReservationDateChangeQuote",
        "CreateLaunchTemplate",
        "CreateLaunchTemplateVersion",
        "MoveCapacityReservationInstances",
        "CreateInterruptibleCapacityReservationAllocation",
    }
)


class Ec2Emulation:
    """One account's EC2 in one region; thread-safe, with one lock that is not held while an event is delivered."""

    def __init__(
        self, clock: Clock, emit: Callable[[Event], None], account_id: str, region: str
    ) -> None:
        self._lock = threading.RLock()
        self._protocol = Ec2Protocol()
        self._tokens: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
        self._pricing = PricingService(region)
        self._region = region
        self._new_world = partial(create_world, clock, emit, account_id, region)
        self.world = self._new_world()

    def dispatch(self, method: str, headers: dict[str, str], body: bytes) -> Reply:
        """Answer one EC2 request; the host has authenticated it, so ``method`` and ``headers`` decide nothing here.

        Raises
        ------
        ResponseLostError
            When a test wants this answer lost: the call has taken effect, and the host drops the connection.
        """
        del method, headers
        return self.answer(self.read(body), body)

    def read(self, body: bytes) -> Call | Ec2Error:
        """Return the call that a request makes, or the error that answers it."""
        try:
            return self._protocol.parse(body)
        except Ec2Error as error:
            return error

    def answer(
        self, call: Call | Ec2Error, body: bytes, *, is_throttled: bool = True
    ) -> Reply:
        """Answer a request whose ``body`` was read as ``call``; it takes a token, unless it is not throttled.

        Raises
        ------
        ResponseLostError
            As ``dispatch`` does.
        """
        try:
            with self._lock:
                self.world.agenda.catch_up()
                try:
                    return self._answer(call, body, is_throttled=is_throttled)
                finally:
                    self.world.agenda.catch_up()
                    slots.record_counts(self.world)
        finally:
            self.world.outbox.flush()

    def tick(self) -> None:
        """Apply everything that is due by the clock and deliver its events."""
        with self._lock:
            self.world.agenda.catch_up()
            slots.record_counts(self.world)
        self.world.outbox.flush()

    def next_due(self) -> datetime | None:
        """Return when something will happen next, if nobody asks for more; None for never."""
        with self._lock:
            return self.world.agenda.next_due()

    def control(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Do what only AWS, another account or bad luck can do; see ``control.ACTIONS``.

        The action ``reset`` makes the account new: no event tells of what disappears.

        Raises
        ------
        ControlError
            For an unknown action or a payload that does not fit it.
        """
        try:
            with self._lock:
                if action == "reset":
                    self.world, self._tokens = self._new_world(), {}
                    return {}
                self.world.agenda.catch_up()
                result = control.perform(self.world, action, payload)
                self.world.agenda.catch_up()
                slots.record_counts(self.world)
                return result
        finally:
            self.world.outbox.flush()

    def find_instance(self, instance_id: str) -> Instance | None:
        """Return an instance, None when there is none of that id."""
        with self._lock:
            return self.world.instances.get(instance_id)

    def instances(self) -> list[Instance]:
        """Return the account's own instances that are still to be seen."""
        with self._lock:
            return [
                each
                for each in self.world.instances.values()
                if each.owner_id == self.world.account_id
            ]

    def state(self) -> dict[str, Any]:
        """Return all that there is; for :meth:`restore`, in this or in another process."""
        return {"world": self.world, "tokens": self._tokens}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what :meth:`state` returned."""
        with self._lock:
            self.world, self._tokens = state["world"], state["tokens"]

    def pricing(self, body: bytes, target: str) -> Reply:
        """Answer one request to the Pricing service; ``target`` is its X-Amz-Target header."""
        return self._pricing.answer(body, target)

    def resource_groups(self, path: str, body: bytes) -> Reply:
        """Answer one request to Resource Groups, whose groups of reservations EC2 launches into."""
        try:
            with self._lock:
                self.world.agenda.catch_up()
                reply = resource_groups.answer(self.world, path, body)
                self.world.agenda.catch_up()
                slots.record_counts(self.world)
                return reply
        finally:
            self.world.outbox.flush()

    def client(self, service: str = "ec2", *, attempts: int = 1) -> Any:
        """Return a boto3 client for ``ec2``, ``pricing`` or ``resource-groups`` that talks to this emulation itself.

        Requests are serialised, signed and parsed as ever. It tries once unless ``attempts`` says otherwise, so that a
        test sees every fault.
        """
        return bound_client(self, service, self._region, attempts)

    def _answer(self, call: Call | Ec2Error, body: bytes, *, is_throttled: bool) -> Reply:
        request_id = self.world.ids.uuid("request")
        try:
            if isinstance(call, Ec2Error):
                raise call
            if is_throttled:
                self.world.throttle.take_call(
                    call.operation, call.parameters, self.world.now()
                )
            self.world.faults.before_call(
                call.operation, is_dry_run=bool(call.parameters.get("DryRun"))
            )
            reply = self._perform(call, body, request_id)
        except ServiceException as error:  # moto refuses a volume or an address of a launch
            return self._protocol.refuse(Ec2Error(error.code, error.message), request_id)
        except Ec2Error as error:
            return self._protocol.refuse(error, request_id)
        self.world.faults.after_call(call.operation)
        return reply

    def _perform(self, call: Call, body: bytes, request_id: str) -> Reply:
        operation = OPERATIONS.get(call.operation)
        if operation is None:
            return self.world.moto.answer(call.operation, body)
        if call.parameters.get("DryRun"):
            check = DRY_RUNS.get(call.operation)
            if check is not None:
                check(self.world, call.parameters)
            raise Ec2Error(
                "DryRunOperation",
                "Request would have succeeded, but DryRun flag is set.",
                412,
            )
        token = call.parameters.get("ClientToken")
        if token is None or call.operation not in _IDEMPOTENT:
            result = operation(self.world, call.parameters)
        else:
            result = self._once(call, token)
        return self._protocol.answer(call.operation, result, request_id)

    def _once(self, call: Call, token: str) -> dict[str, Any]:
        """Perform a call with a client token the first time; later answer as then, or refuse other parameters."""
        key = (call.operation, token)
        if key not in self._tokens:
            self._tokens[key] = (
                call.parameters,
                OPERATIONS[call.operation](self.world, call.parameters),
            )
        parameters, result = self._tokens[key]
        if parameters != call.parameters:
            raise Ec2Error(
                "IdempotentParameterMismatch",
                "The request uses the same client token as a previous, but non-identical request.",
            )
        return result


def install(
    *, clock: Clock, emit: Callable[[Event], None], account_id: str, region: str
) -> Ec2Emulation:
    """Return a fresh EC2 for one account and region.

    Parameters
    ----------
    clock
        Where the time comes from; the emulation never reads any other.
    emit
        Takes one complete EventBridge event; called without any lock held.
    """
    return Ec2Emulation(clock, emit, account_id, region)


__all__ = ["Ec2Emulation", "ResponseLostError", "install"]
