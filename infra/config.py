"""What can be chosen at deployment (CDK context), and the settings of each function."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from constructs import Node

from infra.scheduling import SchedulingConfig, require_one_of
from shared.names import DEFAULT_STACK, INSTANCE_STATUS_POLICIES, REBALANCE_POLICIES, Function, Queue

DEFAULT_INSTANCE_ROLE: Final = "reservoir-*"
DEFAULT_IMAGE_PARAMETERS: Final = "/images/*"


@dataclass(frozen=True, slots=True)
class StackConfig:
    """One deployment's choices; each is a context key of the same spelling in camelCase."""

    stack: str = DEFAULT_STACK
    # Tables and bucket survive the stack and cannot be deleted by accident.
    retain: bool = True
    # Build the layer for this machine's Python instead of Lambda's: the stack will run on the embedded AWS.
    embedded: bool = False
    # Folder of YAML manifests that a deployment applies.
    manifests: Path | None = None
    # Role name, or path and name pattern, of the instance roles that launches may hand to EC2.
    instance_role: str = DEFAULT_INSTANCE_ROLE
    # Name pattern of the SSM parameters, beside AWS's public ones, that EC2NodeClasses may take their image from.
    image_parameters: str = DEFAULT_IMAGE_PARAMETERS
    # What a spot rebalance recommendation does; unless it does something, nobody is told of one.
    rebalance_policy: str = REBALANCE_POLICIES[0]
    # What failed status checks and planned maintenance do.
    instance_status_policy: str = INSTANCE_STATUS_POLICIES[0]
    # Create AWSServiceRoleForEC2Spot; an account that has used Spot already has it, and a second one is an error.
    spot_service_linked_role: bool = False
    scheduling: SchedulingConfig = field(default_factory=SchedulingConfig)

    def __post_init__(self) -> None:
        """Refuse what CloudFormation or IAM would only refuse at deployment, or would take too literally."""
        if not re.fullmatch(
            r"[A-Za-z][A-Za-z0-9-]{0,39}", self.stack
        ):  # function names append up to 22 of 64 characters
            message = f"stack: {self.stack!r} must be a letter, then at most 39 letters, digits and hyphens"
            raise ValueError(message)
        if not re.fullmatch(r"[\w+=,.@/-]{3,}\*?", self.instance_role):
            message = (
                f"instanceRole: {self.instance_role!r} must be a role name, or at least 3 characters of one and a"
                " final *: every role that it matches may be handed to instances"
            )
            raise ValueError(message)
        if not re.fullmatch(r"(/[\w.-]+)+(/\*)?", self.image_parameters):
            message = (
                f"imageParameters: {self.image_parameters!r} must be a parameter's path, or one with a final /*: every"
                " parameter that it matches can be read"
            )
            raise ValueError(message)
        require_one_of("rebalancePolicy", self.rebalance_policy, REBALANCE_POLICIES)
        require_one_of("instanceStatusPolicy", self.instance_status_policy, INSTANCE_STATUS_POLICIES)

    @property
    def event_bus_name(self) -> str:
        """The outbound bus: ``reservoir`` in the default stack, prefixed with the stack's name in others."""
        return "reservoir" if self.stack == DEFAULT_STACK else f"{self.stack}-reservoir"

    @classmethod
    def from_context(cls, node: Node) -> "StackConfig":
        """Read the context of a CDK app; absent keys keep their defaults."""
        given = {
            "stack": node.try_get_context("stack"),
            "retain": _switch(node, "retain"),
            "embedded": _switch(node, "embedded"),
            "manifests": _folder(node.try_get_context("manifests")),
            "instance_role": node.try_get_context("instanceRole"),
            "image_parameters": node.try_get_context("imageParameters"),
            "rebalance_policy": node.try_get_context("rebalancePolicy"),
            "instance_status_policy": node.try_get_context("instanceStatusPolicy"),
            "spot_service_linked_role": _switch(node, "spotServiceLinkedRole"),
            "scheduling": SchedulingConfig.from_context(node),
        }
        return cls(**{name: value for name, value in given.items() if value is not None})


def _switch(node: Node, key: str) -> bool | None:
    """Read a boolean; the command line (`-c key=true`) hands over text."""
    value = node.try_get_context(key)
    if value is None or isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    message = f"{key}: {value!r} must be true or false"
    raise ValueError(message)


def _folder(value: str | None) -> Path | None:
    if value is None:
        return None
    folder = Path(value)
    if not folder.is_dir():
        message = f"manifests: {value!r} is not a folder"
        raise ValueError(message)
    return folder


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
    every_min: int | None = None  # schedule


# Lambda gives CPU in proportion to memory: 1769 MiB is one core, below that start-up (imports) slows down.
FUNCTIONS: Final[dict[Function, FunctionSettings]] = {
    Function.INTAKE: FunctionSettings(30, 1024, Queue.DEMAND, batch_size=10, max_concurrency=5),
    Function.DISCOVER_RESERVATIONS: FunctionSettings(60, 1024, every_min=1),
    # All instance types of a region with their prices: thousands of items over paged, throttled calls.
    Function.DISCOVER_OFFERINGS: FunctionSettings(600, 1769, every_min=12 * 60),
    # One message group makes one planner at a time; up to ten wake-ups collapse into one pass. A failed pass holds up
    # the whole group while its messages are hidden, and a pass too many is harmless: so hidden much shorter than usual.
    Function.PROVISION: FunctionSettings(90, 3008, Queue.PLANNING, batch_size=10, hidden_timeouts=1),
    # A batch is one CreateFleet call of seconds. EC2 refills five mutating calls a second.
    Function.LAUNCH: FunctionSettings(60, 1024, Queue.LAUNCHES, batch_size=2, max_concurrency=5),
    # A spot market that collapses warns of thousands of instances within its two minutes.
    Function.REACT: FunctionSettings(30, 1024, Queue.REACTIONS, batch_size=10, max_concurrency=5),
    Function.EXPIRE: FunctionSettings(60, 1024, every_min=1),
    Function.DISRUPT: FunctionSettings(90, 3008, every_min=1),
    Function.COLLECT: FunctionSettings(120, 1024, every_min=5),
    Function.APPLY: FunctionSettings(60, 1024),
}

CONSUMERS: Final[dict[Queue, Function]] = {
    settings.queue: function for function, settings in FUNCTIONS.items() if settings.queue is not None
}

# How often a message may fail before it goes to the dead letter queue; AWS advises at least five for Lambda consumers,
# because throttled receives count too.
MAX_RECEIVE_COUNT: Final = 5
LOG_RETENTION_DAYS: Final = 30
SNAPSHOT_RETENTION_DAYS: Final = 30
