"""Webhooks of GitHub: who sent them, and what they say of a job."""

import hashlib
import hmac
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

SIGNATURE_HEADER: Final = "x-hub-signature-256"
EVENT_HEADER: Final = "x-github-event"
_PREFIX: Final = "sha256="


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Repository(_Lenient):
    """Where a job belongs."""

    full_name: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$", max_length=200)


class WorkflowJob(_Lenient):
    """One job. ``runner_name`` is null or empty until a runner has taken it."""

    id: int = Field(gt=0)
    labels: list[str]
    runner_name: str | None = None


class JobEvent(_Lenient):
    """The payload of ``workflow_job``. ``action`` may be one that GitHub adds later, as it has added ``waiting``."""

    action: str
    workflow_job: WorkflowJob
    repository: Repository


def is_signed(secret: bytes, body: bytes, signature: str | None) -> bool:
    """Whether the body was signed with the webhook's secret; takes as long for a wrong signature as for a right one."""
    if not secret:
        raise ValueError("an empty secret signs nothing")
    expected = _PREFIX + hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(
        expected.encode(), (signature or "").encode(errors="replace")
    )
