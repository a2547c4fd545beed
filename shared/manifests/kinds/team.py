"""Team (``reservoir/v1``): who may ask for what."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from shared.core.model.team import Team, TeamLimits
from shared.manifests.kinds.workload import MOST_REPLICAS
from shared.manifests.parsing.fields import Namespace, check_distinct, matching
from shared.manifests.parsing.metadata import LARGEST_INTEGER, Metadata, ServerSide
from shared.manifests.parsing.model import Model

API_VERSION: Final = "reservoir/v1"
KIND: Final = "Team"
MOST_NAMESPACES: Final = 200
MOST_PRINCIPALS: Final = 50

_UNIQUE_ID: Final = "(AROA|AIDA)[A-Z0-9]{12,124}"
_ARN: Final = r"arn:aws[a-z-]{0,20}:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]{1,512}"


def is_unique_id(principal: str) -> bool:
    """Whether a principal is named by IAM's unique id, not by an ARN."""
    return re.fullmatch(_UNIQUE_ID, principal) is not None


Principal = Annotated[
    str,
    AfterValidator(
        matching(
            "principal",
            rf"^({_UNIQUE_ID}|{_ARN})$",
            "must be the ARN of an IAM role or user (arn:aws:iam::123456789012:role/name), or its unique id (AROA…)",
        )
    ),
]


class TeamLimitsSpec(Model):
    """What one message may ask for."""

    priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1, description="Highest priority of a workload.")
    replicas: int | None = Field(default=None, ge=1, le=MOST_REPLICAS, description="Most replicas of a workload.")
    generation_jump: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_INTEGER,
        description="How far above the stored generation (0: none is stored) that of a message may be.",
    )


class TeamSpec(Model):
    """Who the team is, and what it may ask for."""

    namespaces: Annotated[list[Namespace], AfterValidator(check_distinct)] = Field(
        min_length=1, max_length=MOST_NAMESPACES, description="Namespaces of workloads; each belongs to one team."
    )
    principals: Annotated[list[Principal], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_PRINCIPALS,
        description="Who may act for the namespaces; none: whoever may send to the demand queue.",
    )
    limits: TeamLimitsSpec = TeamLimitsSpec()


class TeamManifest(Model):
    """A team."""

    api_version: Literal["reservoir/v1"]
    kind: Literal["Team"]
    metadata: Metadata
    spec: TeamSpec
    status: ServerSide

    def to_core(self) -> Team:
        """Return the team of the core, with no principal resolved."""
        spec = self.spec
        return Team(
            name=self.metadata.name,
            namespaces=tuple(sorted(spec.namespaces)),
            principals=tuple(sorted(spec.principals)),
            limits=TeamLimits(spec.limits.priority, spec.limits.replicas, spec.limits.generation_jump),
        )
