"""The command line -> what operators do by hand; its caller is told what became of each object."""

from typing import Any

from reservoir.manifests.answers.operations import parse_request
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.runtime.composition.operate import operate
from reservoir.runtime.composition.parts.signed_requests import problems_of, sender_of
from reservoir.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Carry a request out, if AWS vouches for its sender; return the results, or what is wrong with the request."""
    try:
        request = parse_request(event.get("request"))
        sender = sender_of(event.get("proof"), request.digest)
    except ManifestError as error:
        return problems_of(error)
    logger.info(
        "operation",
        extra={"verb": request.verb.value, "names": request.names, "by": sender.arn},
    )
    results = operate().run(request, sender)
    count("ObjectsOperated", sum(result.outcome == "done" for result in results))
    return {
        "results": [result.model_dump(mode="json", by_alias=True) for result in results]
    }
