"""The embedded AWS: MiniStack's services, the EC2 emulation, Lambda, one clock and the control API, put together.

Import it only after ``settings.prepare_environment``: MiniStack reads its environment when it is imported.
"""

import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ministack import app

from lab.embedded import delivery, ec2, services
from lab.embedded.cloudformation import conditions, failed_stacks, provisioners
from lab.embedded.cloudformation import events as stack_events
from lab.embedded.cloudformation.account_rules import AccountRules
from lab.embedded.cloudformation.execution_role import ExecutionRoles
from lab.embedded.cloudwatch import log_events
from lab.embedded.control import ControlServer, JsonObject
from lab.embedded.ec2_gate import Ec2Gate
from lab.embedded.emulated_time import services as services_in_time
from lab.embedded.emulated_time.clock import EmulatedClock
from lab.embedded.emulated_time.control import set_clock, show_clock
from lab.embedded.emulated_time.governor import Governor
from lab.embedded.emulated_time.sources import Ec2Agenda, QueuedMessages, Schedules
from lab.embedded.faults import FaultRule, Faults
from lab.embedded.front import (
    data_keys,
    dynamodb_keys,
    expressions,
    policies,
    policy_variables,
    principal_arns,
    senders,
)
from lab.embedded.front.plain_calls import PlainCalls
from lab.embedded.front.server import serve
from lab.embedded.functions import concurrency, mappings, recursion
from lab.embedded.functions.events import AsynchronousInvocations
from lab.embedded.functions.networks import FunctionNetworks
from lab.embedded.functions.runtime import Endpoint, LambdaRuntime
from lab.embedded.keep import stores
from lab.embedded.keep.folder import KeptStateError
from lab.embedded.keep.gate import Gate
from lab.embedded.keep.keeper import Keeper
from lab.embedded.limits import deleted_queues
from lab.embedded.limits import requests as limited_requests
from lab.embedded.nodes import sessions
from lab.embedded.nodes.metadata import MetadataService
from lab.embedded.nodes.processes import InstanceProcesses
from lab.embedded.router import Router
from lab.embedded.settings import ACCOUNT_ID, REGION
from lab.embedded.table_backups import TableBackups


class Host:
    """One embedded AWS; ``run`` serves it until ``stop``.

    Parameters
    ----------
    listener
        A bound TCP socket on loopback.
    control_port
        Port of the control API; 0 takes a free one.
    folder
        Private directory; holds ``ca.pem`` and ``key.pem``.
    endpoint
        Where ``listener`` answers.
    governed
        Whether the clock waits for work (``lab.embedded.emulated_time.governor``), at first and after a reset.
    run_nodes
        Whether instances run their user data, as processes of this machine.
    keep
        Folder that ``POST /keep`` writes to; None keeps nothing.
    kept
        What that folder says of itself, when it holds a state to go on with.
    """

    def __init__(
        self,
        listener: socket.socket,
        control_port: int,
        folder: Path,
        endpoint: Endpoint,
        *,
        governed: bool = True,
        run_nodes: bool = False,
        keep: Path | None = None,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        self._listener = listener
        self._keep_folder = keep
        self._folder = folder
        self._stopping = threading.Event()
        self.clock = EmulatedClock(start_us=None if kept is None else kept["now_us"])
        self.clock.publish_to(folder / "clock")
        self.faults = Faults()
        self.ec2 = ec2.install(
            clock=self.clock,
            emit=services.put_service_event,
            account_id=ACCOUNT_ID,
            region=REGION,
        )
        self.runtime = LambdaRuntime(
            folder,
            folder / "clock",
            endpoint,
            services.layer_content,
            services.register_session,
        )
        services.install(ACCOUNT_ID, REGION)
        services.install_lambda(self.runtime)
        concurrency.install()
        self._backoff: dict[str, float] = {}
        services_in_time.install(self.clock, self._backoff)
        self._governed = governed
        self.governor = Governor(self.clock)
        self.governor.govern(governed=governed)
        self._events = AsynchronousInvocations(self.governor)
        self._events.install()
        self.governor.watch(
            Ec2Agenda(self.ec2), Schedules(), QueuedMessages(self._backoff), self._events
        )
        delivery.install()
        policies.install()
        senders.install()
        dynamodb_keys.install()
        principal_arns.install()
        policy_variables.install()
        sessions.install()
        expressions.install()
        provisioners.install(self.ec2)
        conditions.install()
        failed_stacks.install()
        self._counts = limited_requests.install()
        deleted_queues.install()
        log_events.install()
        data_keys.install()
        mappings.install()
        recursion.install()
        stack_events.install(self.clock)
        TableBackups().install()
        gate = Ec2Gate(self.ec2, ACCOUNT_ID, REGION)
        self._rules = AccountRules()
        self._rules.install()
        ExecutionRoles().install()
        networks = FunctionNetworks(self.ec2, ACCOUNT_ID, REGION)
        networks.install()
        Router(self.faults, self.ec2, gate, self.runtime.environment_of, networks).install()
        services_in_time.count_work(self.governor)
        request_gate = Gate()
        request_gate.install()
        self._keeper = Keeper(
            self.clock, self.governor, self.ec2, self._events, self._backoff, request_gate
        )
        if keep is not None and kept is not None:
            self._keeper.restore(keep, listener.getsockname()[1])
        self.metadata = MetadataService(self.ec2, self.clock.now, ACCOUNT_ID, REGION)
        self._nodes = (
            InstanceProcesses(
                self.ec2, folder, folder / "clock", endpoint, self.metadata.url
            )
            if run_nodes
            else None
        )
        self.control = ControlServer(
            control_port, self._operations(), {"POST /ec2/": self._control_ec2}
        )

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve for ever; ``on_ready`` is called once requests are answered."""
        threading.Thread(target=self.control.serve, name="control", daemon=True).start()
        if self._nodes is not None:
            threading.Thread(target=self._nodes.run, name="nodes", daemon=True).start()
        threading.Thread(target=self.metadata.serve, name="metadata", daemon=True).start()
        threading.Thread(
            target=self.governor.run,
            args=(self._stopping.is_set,),
            name="governor",
            daemon=True,
        ).start()
        # A graceful end would wait for idle TLS connections; this process ends by exiting.
        serve(
            PlainCalls(app.app),
            self._listener,
            self._folder,
            partial(self._begin, on_ready),
        )

    def _begin(self, on_ready: Callable[[], None]) -> None:
        stores.start_polling()
        on_ready()

    def request_stop(self) -> None:
        """Let ``wait_for_stop`` return; safe in a signal handler."""
        self._stopping.set()

    def wait_for_stop(self) -> None:
        """Wait for ``request_stop``, then end every process that was started here."""
        self._stopping.wait()
        if self._nodes is not None:
            self._nodes.stop()
        self.runtime.stop()

    def _control_ec2(self, action: str, payload: JsonObject) -> dict[str, Any]:
        with self.governor.work():
            return self.ec2.control(action, payload)

    def _operations(self) -> dict[str, Callable[[JsonObject], JsonObject]]:
        return {
            "GET /health": lambda _: {"status": "ok"},
            "GET /clock": lambda _: show_clock(self.governor),
            "POST /clock": lambda payload: set_clock(self.governor, payload),
            "GET /environments": lambda _: {"environments": self.runtime.environments()},
            "POST /lambda": self._limit_concurrency,
            "POST /account-quotas": self._counts.set,
            "POST /account-rules": self._rules.set,
            "POST /keep": lambda _: self._keep(),
            "POST /reset": lambda _: self._reset(),
            "GET /faults": lambda _: {"faults": self.faults.rules()},
            "POST /faults": lambda payload: {
                "id": self.faults.add(FaultRule.parse(payload))
            },
            "DELETE /faults": lambda _: self._clear_faults(),
            "GET /requests": lambda payload: {
                "requests": self.faults.requests(payload.get("function"))
            },
            "DELETE /requests": lambda _: self._clear_requests(),
        }

    def _limit_concurrency(self, payload: JsonObject) -> JsonObject:
        concurrency.set_account_limit(int(payload["account_concurrency"]))
        return {}

    def _keep(self) -> JsonObject:
        if self._keep_folder is None:
            raise ValueError("started without --keep FOLDER")
        try:
            self._keeper.keep(self._keep_folder, self._listener.getsockname()[1])
        except KeptStateError as error:
            raise ValueError(str(error)) from error
        return {"folder": str(self._keep_folder)}

    def _clear_faults(self) -> JsonObject:
        self.faults.clear()
        return {}

    def _clear_requests(self) -> JsonObject:
        self.faults.clear_requests()
        return {}

    def _reset(self) -> JsonObject:
        """Make the account empty; the clock keeps its time but runs as real time does, and waits for work."""
        self.faults.clear()
        self.clock.resume()
        self.clock.set_rate(1)
        with self.governor.between_looks():
            app._reset_all_state()  # noqa: SLF001 - MiniStack's own reset operation
            services.forget_schedules()
            self._backoff.clear()
            self._events.clear()
            concurrency.set_account_limit(concurrency.ACCOUNT_LIMIT)
            self._counts.set({})
            deleted_queues.forget()
            self.ec2.control("reset", {})
        self.runtime.stop()
        self.governor.govern(governed=self._governed)
        self.governor.forget_lateness()
        return {}
