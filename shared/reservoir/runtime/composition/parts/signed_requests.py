"""Requests that people sign: who sent one is what AWS says, and what is wrong with one is the answer."""

from collections.abc import Callable
from typing import Any

from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.system import Sender
from reservoir.runtime.composition.parts.outside import process_outside


def sender_of(proof: object, digest: Callable[[str], str]) -> Sender:
    """Return who signed a request; ``digest`` is the request's, for a deployment.

    Raises ManifestError where AWS does not vouch for them, and TransientError when AWS does not answer.
    """
    outside = process_outside()
    try:
        return outside.identities.sender_of(
            digest(outside.settings.deployment), proof if isinstance(proof, dict) else {}
        )
    except AccessDeniedError as error:
        message = f"AWS does not vouch for whoever signed this: {error.code}"
        raise ManifestError([Problem("proof", "identity", message)]) from error


def problems_of(error: ManifestError) -> dict[str, Any]:
    """Return the answer to a request that was refused."""
    return {
        "problems": [
            {"path": it.path, "rule": it.rule, "message": it.message, "subject": it.subject}
            for it in error.problems
        ]
    }
