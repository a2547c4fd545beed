"""The command line -> what operators do by hand; its caller is told what became of each object."""

from typing import Any

from reservoir.manifests.answers.operations import parse_request
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.errors import AccessDeniedError
from reservoir.runtime.composition.operate import deployment, identities, operate
from reservoir.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Carry a request out, if AWS vouches for its sender; return the results, or what is wrong with the request."""
    try:
        request = parse_request(event.get("request"))
        proof = event.get("proof")
        sender = identities().sender_of(
            request.digest(deployment()), proof if isinstance(proof, dict) else {}
        )
    except ManifestError as error:
        return {
            "problems": [
                {"path": it.path, "rule": it.rule, "message": it.message}
                for it in error.problems
            ]
        }
    except AccessDeniedError as error:
        message = f"AWS does not vouch for whoever signed this: {error.code}"
        return {"problems": [{"path": "proof", "rule": "identity", "message": message}]}
    logger.info(
        "operation",
        extra={"verb": request.verb.value, "names": request.names, "by": sender.arn},
    )
    results = operate().run(request, sender)
    count("ObjectsOperated", sum(result.outcome == "done" for result in results))
    return {
        "results": [result.model_dump(mode="json", by_alias=True) for result in results]
    }
