"""The deployed stack as the command line sees it."""

import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reservoir.cli.console import fail
from reservoir.cli.options import Options
from reservoir.cli.stack.target import Target, choose
from reservoir.names import CHANGE_POLICY_OUTPUT, RELEASE_OUTPUT, output_name

if TYPE_CHECKING:
    from reservoir.adapters.system import AwsClock
    from reservoir.cli.stack.dead_letters import DeadLetterQueue
    from reservoir.manifests.answers.operations import OperationRequest, OperationResult
    from reservoir.manifests.answers.policy_request import PolicyRequest
    from reservoir.runtime.outside import Outside
    from reservoir.usecases.provisioning.solver import Solver
    from reservoir.usecases.what_if.plan_demand import SnapshotSource


class Connection(Protocol):
    """What commands use of a stack; a property connects when it is first read."""

    @property
    def outside(self) -> "Outside":
        """The stack's tables, queues and settings, EC2 and the time, as its functions have them."""

    @property
    def release(self) -> str | None:
        """The release that the stack was deployed from; None: one that did not say."""

    @property
    def snapshots(self) -> "SnapshotSource":
        """What the planner sees."""

    @property
    def solver(self) -> "Solver":
        """How the planner decides."""

    def caller(self) -> str:
        """Return the caller's ARN. Ends the command when AWS does not know it."""

    @property
    def dead_letter_queues(self) -> Mapping[str, "DeadLetterQueue"]:
        """The dead-letter queues, by name."""

    def client(self, service: str) -> Any:
        """Return a client of a service, with the caller's credentials."""

    @property
    def changes_policy(self) -> bool:
        """Whether the stack has a function that changes policy; that of the release before has none."""

    def change_policy(self, request: "PolicyRequest") -> None:
        """Have policy changed by the function that does it. Raises ManifestError, ConflictError and AwsError."""

    def operate(self, request: "OperationRequest") -> "list[OperationResult]":
        """Have a request carried out by the function that does it; ends the command when it is refused as a whole."""

    def pause(self, seconds: float) -> None:
        """Let time pass before asking again."""


class Session:
    """Connects to a stack by its outputs, which carry what its functions have in their environment."""

    def __init__(self, options: Options) -> None:
        self._options = options

    @cached_property
    def target(self) -> Target:
        """The stack that is meant, chosen when a command first needs one."""
        return choose(self._options, Path())

    @cached_property
    def outputs(self) -> tuple[dict[str, str], str]:
        """The stack's outputs, and the region that it was found in."""
        target = self.target  # first: it chooses the profile, or says that there is none
        from reservoir.adapters.clients import hear_dates

        hear_dates(self.clock.hear)
        return _outputs_of(target)

    @cached_property
    def clock(self) -> "AwsClock":
        """The stack's time."""
        from reservoir.adapters.system import AwsClock

        return AwsClock()

    @property
    def dead_letter_queues(self) -> Mapping[str, "DeadLetterQueue"]:
        """The dead-letter queues, by name."""
        from reservoir.adapters.clients import make_client

        # here, because few commands need them
        from reservoir.cli.stack.dead_letters import dead_letter_queues

        outputs, _ = self.outputs  # first: they say in which region the queues are
        return dead_letter_queues(make_client("sqs"), outputs)

    @cached_property
    def outside(self) -> "Outside":
        """The ports with the caller's credentials, made when a command first needs one."""
        # Read first: a stack that is not there is reported before AWS's libraries load.
        outputs, region = self.outputs
        # imported here, because --help and validate shall not wait for them either
        from reservoir.runtime.composition.parts.aws_outside import AwsOutside
        from reservoir.runtime.environment import SettingsError
        from reservoir.runtime.settings import OPTIONAL, REGION, REQUIRED, Settings

        names = {name: output_name(name) for name in (*REQUIRED, *OPTIONAL)}
        environment = {
            name: outputs[output] for name, output in names.items() if output in outputs
        }
        try:
            settings = Settings.from_environment({**environment, REGION: region})
            return AwsOutside(settings, self.clock)
        except SettingsError as error:
            fail(
                f"the stack {self.target.stack} is not a Reservoir of this version: {error}"
            )

    @property
    def release(self) -> str | None:
        """The release that the stack was deployed from; None: one that did not say."""
        return self.outputs[0].get(RELEASE_OUTPUT)

    def client(self, service: str) -> Any:
        """Return a client of a service, with the caller's credentials."""
        from reservoir.adapters.clients import make_client

        self._choose()
        return make_client(service)

    def _choose(self) -> None:
        """Choose the stack, and by that the profile and region of all clients that are made from then on."""
        _ = self.target

    @property
    def changes_policy(self) -> bool:
        """Whether the stack has a function that changes policy."""
        return CHANGE_POLICY_OUTPUT in self.outputs[0]

    def change_policy(self, request: "PolicyRequest") -> None:
        """Have policy changed by the function for it, signed by the caller."""
        # here, because few commands need it
        from reservoir.cli.stack.operating import change_policy

        change_policy(self.outside.settings.deployment, request)

    def operate(self, request: "OperationRequest") -> "list[OperationResult]":
        """Have a request carried out by the function for it, signed by the caller."""
        # here, because few commands need it
        from reservoir.cli.stack.operating import operate

        return operate(self.outside.settings.deployment, request)

    def pause(self, seconds: float) -> None:
        """Let time pass before asking again."""
        time.sleep(seconds)

    @property
    def snapshots(self) -> "SnapshotSource":
        """What the planner sees."""
        from reservoir.runtime.composition.parts.planning import snapshot_gatherer_from

        return snapshot_gatherer_from(self.outside)

    @property
    def solver(self) -> "Solver":
        """How the planner decides."""
        from reservoir.runtime.composition.parts.planning import solver_from

        return solver_from(self.outside)

    def caller(self) -> str:
        """Return the caller's ARN; every caller may ask for that."""
        from botocore.exceptions import BotoCoreError, ClientError

        from reservoir.adapters.clients import make_client

        self._choose()
        try:
            arn: str = make_client("sts").get_caller_identity()["Arn"]
        except (BotoCoreError, ClientError) as error:
            fail(f"cannot find out who you are: {error}")
        return arn


def _outputs_of(target: Target) -> tuple[dict[str, str], str]:
    """Return a stack's outputs and the region that it was found in."""
    from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

    from reservoir.adapters.clients import make_client

    try:
        client = make_client("cloudformation")
        (found,) = client.describe_stacks(StackName=target.stack)["Stacks"]
    except NoRegionError:
        fail(
            "no AWS region is chosen: say --region, set AWS_REGION, or use a profile that has one"
        )
    except (BotoCoreError, ClientError, ValueError) as error:  # botocore's of an endpoint
        if _says_that_there_is_none(error):
            fail(
                f"there is no stack {target.stack} in {client.meta.region_name}: look in another place with --region or"
                " --profile, or name another with --stack, --deployment or --context"
            )
        fail(f"cannot read the stack {target.stack}: {error}")
    outputs = {
        output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])
    }
    contradiction = target.contradiction(found["StackId"].split(":")[4], outputs)
    if contradiction is not None:
        fail(contradiction)
    return outputs, client.meta.region_name


def _says_that_there_is_none(error: Exception) -> bool:
    """Whether CloudFormation knows no stack of that name; there is no code for it alone."""
    said = getattr(error, "response", {}).get("Error", {})
    return said.get("Code") == "ValidationError" and "does not exist" in said.get(
        "Message", ""
    )
