"""One deployment of Reservoir on an embedded AWS of its own."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from botocore.config import Config

from infra.naming import function_name
from lab.embedded.client import EmbeddedAws
from lab.embedded.deploy import deploy
from lab.embedded.keep.folder import read_index
from lab.embedded.reservoir.assembly import Settings, Synthesis
from lab.embedded.reservoir.network import make_network
from lab.embedded.settings import CONTROL_VARIABLE
from reservoir.names import DEPLOYMENT, Function, output_name

# The first reading of all instance types takes longer than a client usually waits.
PATIENT: Final = Config(read_timeout=600, retries={"total_max_attempts": 1})
Report = Callable[[str], None]
Prepare = Callable[[EmbeddedAws], Settings]


class DeployedReservoir:
    """An embedded AWS with Reservoir deployed, from ``start`` (or ``with``) to ``stop``.

    Parameters
    ----------
    report
        Called with a line of progress before each step.
    settings
        What its settings file says beside what suits an embedded run, e.g. ``{"spotPoolSharePercent": 50}``.
    prepare
        Called once AWS runs and has a network: makes what more settings name, and returns them.
    assembly
        A folder that :func:`synthesise` has filled from the same settings; without one it is made, or taken from the
        last time.
    keep
        A folder to go on with, if a deployment is kept there, and to keep this one in (``aws.keep``).
    run_nodes
        Whether instances run their user data, as processes of this machine.
    """

    def __init__(
        self,
        report: Report,
        settings: Settings | None = None,
        assembly: Path | None = None,
        keep: Path | None = None,
        *,
        run_nodes: bool = False,
        prepare: Prepare | None = None,
    ) -> None:
        self.aws = EmbeddedAws(run_nodes=run_nodes, keep=keep)
        self.goes_on = keep is not None and read_index(keep) is not None
        self.outputs: Mapping[str, str] = {}
        self._report = report
        self._settings = settings or {}
        self._assembly = assembly
        self._prepare = prepare

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Synthesise, start AWS, make the network, deploy; ``stop`` is due also after a failure."""
        self._deploy(self._start_with_assembly())

    def _start_with_assembly(self) -> Path:
        if self._assembly is not None:
            self._report("starting the embedded AWS")
            self.aws.start()
            return self._assembly
        if self._prepare is not None:
            return self._assembly_of_what_is_prepared(self._prepare)
        synthesis = Synthesis(self._settings)
        try:
            self._report(
                "nothing changed since the last synthesis"
                if synthesis.is_kept
                else "synthesising the stack"
            )
            self._report("starting the embedded AWS")
            self.aws.start()
            return synthesis.finish()
        finally:
            synthesis.abandon()

    def _assembly_of_what_is_prepared(self, prepare: Prepare) -> Path:
        self._report("starting the embedded AWS")
        self.aws.start()
        self._make_network()
        synthesis = Synthesis({**self._settings, **prepare(self.aws)})
        try:
            self._report("synthesising the stack")
            return synthesis.finish()
        finally:
            synthesis.abandon()

    def _make_network(self) -> None:
        self._report("making subnets, a security group, an image and a node role")
        make_network(self.aws)

    def _deploy(self, assembly: Path) -> None:
        if not self.goes_on and self._prepare is None:
            self._make_network()
        self._report("deploying")
        (self.outputs,) = deploy(assembly, self.aws.client, self._report).values()
        # CloudFormation's event has woken those that a new deployment waits for: the catalogue and the tables' marks.
        self.aws.clock.settle()

    def invoke(
        self, function: Function, event: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Call a function as its schedule would, or with an event.

        Raises
        ------
        RuntimeError
            It failed; what it wrote is in the error.
        """
        name = function_name(self.outputs[output_name(DEPLOYMENT)], function)
        answer = self.aws.client("lambda", config=PATIENT).invoke(
            FunctionName=name, Payload=json.dumps(dict(event))
        )
        if "FunctionError" in answer:
            raise RuntimeError(
                f"{name} failed: {answer['Payload'].read().decode()}\n{self.aws.function_log(name)}"
            )

    def variables(self) -> dict[str, str]:
        """Return the environment variables with which the command line speaks to this deployment."""
        return {
            **self.aws.environment(),
            "RESERVOIR_STACK": self.outputs[output_name(DEPLOYMENT)],
            CONTROL_VARIABLE: self.aws.control.url,
        }

    def environment(self) -> dict[str, str]:
        """Return this process's environment with those variables."""
        return {**os.environ, **self.variables()}

    def stop(self) -> None:
        """End everything."""
        self.aws.stop()
