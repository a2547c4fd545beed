"""Reports of nodes: messages of the reports queue.

A body is JSON: ``{"schemaVersion": 1, "report": ..., "workload": {...}, ...}``, with a report of ``REPORTS``. A report
does not name its node: the function knows it from AWS, which names the sender of a message.
"""

from ipaddress import ip_address
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field

from reservoir.manifests.kinds.workload import MOST_REPLICAS
from reservoir.manifests.parsing.fields import Namespace, ObjectName, broken
from reservoir.manifests.parsing.message import SchemaVersion, read_message
from reservoir.manifests.parsing.model import Model

LOG_TAIL_MAX: Final = 4_096  # characters
_RESTARTS_MAX: Final = 1_000_000
_WAIT_MAX_S: Final = 86_400

Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


def _ip_address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise broken("ip-address", "must be an IPv4 or IPv6 address") from None


class ReportedWorkload(Model):
    """Names the workload."""

    namespace: Namespace = "default"
    name: ObjectName

    @property
    def key(self) -> str:
        """The identity: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ReadyReport(Model):
    """Replicas run, by their own command's report."""

    schema_version: SchemaVersion = 1
    report: Literal["ready"]
    workload: ReportedWorkload
    replicas: Replicas = Field(
        description="How many have run on this node in all, those that have finished included."
    )


class FailedReport(Model):
    """A command ended with a failure, and will be started again."""

    schema_version: SchemaVersion = 1
    report: Literal["failed"]
    workload: ReportedWorkload
    exit_code: int = Field(
        ge=-255, le=255, description="A negative one is the signal that ended it."
    )
    restarts: int = Field(
        ge=0, le=_RESTARTS_MAX, description="How often it was started again before."
    )
    next_start_in_s: int = Field(
        ge=0,
        le=_WAIT_MAX_S,
        description="How long the node waits before it starts it again.",
    )
    log_tail: str = Field(
        default="", max_length=LOG_TAIL_MAX, description="The end of what it wrote."
    )


class FinishedReport(Model):
    """Commands ended with success: their replicas have done what they were for."""

    schema_version: SchemaVersion = 1
    report: Literal["finished"]
    workload: ReportedWorkload
    replicas: Replicas = Field(description="How many have finished on this node in all.")
    log_tail: str = Field(
        default="", max_length=LOG_TAIL_MAX, description="The end of what they wrote."
    )


class ReleasedReport(Model):
    """The node drains, and all replicas of the workload have left it."""

    schema_version: SchemaVersion = 1
    report: Literal["released"]
    workload: ReportedWorkload


class ArrivedReport(Model):
    """The node is there for a workload whose nodes have to know each other."""

    schema_version: SchemaVersion = 1
    report: Literal["arrived"]
    workload: ReportedWorkload
    address: Annotated[str, AfterValidator(_ip_address)] = Field(
        max_length=45,
        description="Where its commands can be reached by those of the other nodes: an IP address.",
    )


NodeReport: TypeAlias = (
    ArrivedReport | ReadyReport | FailedReport | FinishedReport | ReleasedReport
)

REPORTS: Final[dict[str, type[NodeReport]]] = {
    "arrived": ArrivedReport,
    "ready": ReadyReport,
    "failed": FailedReport,
    "finished": FinishedReport,
    "released": ReleasedReport,
}


def parse_report(body: str | bytes) -> NodeReport:
    """Read the body of a report.

    Raises
    ------
    ManifestError
        The body is not a report; with all problems that can be found.
    """
    return read_message(body, "report", REPORTS)
