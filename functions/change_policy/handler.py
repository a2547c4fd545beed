"""The command line -> Policy: what people apply and delete, in the name of whom AWS vouches for."""

from typing import Any

from reservoir.manifests.answers.policy_request import parse_policy_request
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.state import ConflictError
from reservoir.runtime.composition.change_policy import change_policy
from reservoir.runtime.composition.parts.signed_requests import problems_of, sender_of
from reservoir.runtime.observability import logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Write what is asked for, if AWS vouches for the sender; return what was written, or what is wrong."""
    try:
        request = parse_policy_request(event.get("request"))
        sender = sender_of(event.get("proof"), request.digest)
        outcome = change_policy(request, sender)
    except ManifestError as error:
        return problems_of(error)
    except ConflictError as error:
        return {"conflict": list(error.rows)}
    changes = [
        f"{change.kind}/{change.name} {change.change}" for change in outcome.effective
    ]
    logger.info("policy changed", extra={"changes": changes, "by": sender.arn})
    return {"changes": changes}
