"""The embedded AWS: MiniStack's services, the EC2 emulation, Lambda, one clock and the control API, put together.

Import it only after ``settings.prepare_environment``: MiniStack reads its environment when it is imported.
"""

import logging
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from ministack import app

from embedded import delivery, ec2, provisioners, services, services_clock
from embedded.clock import EmulatedClock
from embedded.control import ControlServer, JsonObject
from embedded.ec2_gate import Ec2Gate
from embedded.faults import FaultRule, Faults
from embedded.front import policies
from embedded.front.server import serve
from embedded.lambda_runtime import Endpoint, LambdaRuntime
from embedded.router import Router
from embedded.settings import ACCOUNT_ID, REGION

TICK_S: Final = 0.2
logger = logging.getLogger(__name__)


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
    """

    def __init__(
        self,
        listener: socket.socket,
        control_port: int,
        folder: Path,
        endpoint: Endpoint,
    ) -> None:
        self._listener = listener
        self._folder = folder
        self._stopping = threading.Event()
        self._ticking = threading.Lock()
        self.clock = EmulatedClock()
        self.clock.publish_to(folder / "clock")
        self.faults = Faults()
        self.ec2 = ec2.install(clock=self.clock, emit=services.put_service_event, account_id=ACCOUNT_ID, region=REGION)
        self.runtime = LambdaRuntime(
            folder, folder / "clock", endpoint, services.layer_content, services.register_session
        )
        services.install(ACCOUNT_ID, REGION)
        services.install_lambda(self.runtime)
        services_clock.install(self.clock)
        delivery.install()
        policies.install()
        provisioners.install(self.ec2)
        gate = Ec2Gate(self.ec2, ACCOUNT_ID, REGION)
        Router(self.faults, self.ec2, gate, self.runtime.environment_of).install()
        self.control = ControlServer(control_port, self._operations(), {"POST /ec2/": self.ec2.control})
        self.clock.on_change(self._tick)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve for ever; ``on_ready`` is called once requests are answered."""
        threading.Thread(target=self.control.serve, name="control", daemon=True).start()
        threading.Thread(target=self._tick_until_stopped, name="tick", daemon=True).start()
        # A graceful end would wait for idle TLS connections; this process ends by exiting.
        serve(app.app, self._listener, self._folder, on_ready)

    def request_stop(self) -> None:
        """Let ``wait_for_stop`` return; safe in a signal handler."""
        self._stopping.set()

    def wait_for_stop(self) -> None:
        """Wait for ``request_stop``, then end every process that was started here."""
        self._stopping.wait()
        self.runtime.stop()

    def _tick_until_stopped(self) -> None:
        while not self._stopping.wait(TICK_S):
            self._tick()

    def _tick(self) -> None:
        with self._ticking:
            try:
                self.ec2.tick()
                services_clock.fire_schedules()
            except Exception:  # a tick that fails must be seen, and must not stop time
                logger.exception("tick failed")

    def _operations(self) -> dict[str, Callable[[JsonObject], JsonObject]]:
        return {
            "GET /health": lambda _: {"status": "ok"},
            "GET /clock": lambda _: self._show_clock(),
            "POST /clock": self._set_clock,
            "POST /reset": lambda _: self._reset(),
            "GET /faults": lambda _: {"faults": self.faults.rules()},
            "POST /faults": lambda payload: {"id": self.faults.add(FaultRule.parse(payload))},
            "DELETE /faults": lambda _: self._clear_faults(),
            "GET /requests": lambda payload: {"requests": self.faults.requests(payload.get("function"))},
            "DELETE /requests": lambda _: self._clear_requests(),
        }

    def _show_clock(self) -> JsonObject:
        return {"now": self.clock.now().isoformat(), "rate": self.clock.rate, "paused": self.clock.paused}

    def _set_clock(self, payload: JsonObject) -> JsonObject:
        unknown = payload.keys() - {"advance_s", "rate", "pause"}
        if unknown:
            raise ValueError(f"unknown fields: {sorted(unknown)}")
        self._tick()  # a cron schedule counts from the first tick that sees it
        if "pause" in payload:
            (self.clock.pause if payload["pause"] else self.clock.resume)()
        if "rate" in payload:
            self.clock.set_rate(float(payload["rate"]))
        if "advance_s" in payload:
            self.clock.advance(timedelta(seconds=float(payload["advance_s"])))
        return self._show_clock()

    def _clear_faults(self) -> JsonObject:
        self.faults.clear()
        return {}

    def _clear_requests(self) -> JsonObject:
        self.faults.clear_requests()
        return {}

    def _reset(self) -> JsonObject:
        """Make the account empty; the clock keeps its time but runs as real time does."""
        self.faults.clear()
        self.clock.resume()
        self.clock.set_rate(1)
        with self._ticking:
            app._reset_all_state()  # noqa: SLF001 - MiniStack's own reset operation
            services.forget_schedules()
            self.ec2.control("reset", {})
        self.runtime.stop()
        return {}
