"""The handler of operate: what AWS does not vouch for does nothing, in any verb."""

from collections.abc import Mapping
from typing import Any

import pytest

from functions.operate.handler import handler
from reservoir.manifests.answers.operations import OperationRequest, Verb
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.system import Sender


class Strangers:
    """AWS, which knows nobody."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sender_of(self, digest: str, proof: Mapping[str, str]) -> Sender:
        del proof
        self.asked.append(digest)
        raise AccessDeniedError("SignatureDoesNotMatch", "GetCallerIdentity")


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Strangers:
    found = Strangers()
    monkeypatch.setattr("functions.operate.handler.identities", lambda: found)
    monkeypatch.setattr("functions.operate.handler.deployment", lambda: "Reservoir")

    def nothing() -> Any:
        raise AssertionError("it was carried out")

    monkeypatch.setattr("functions.operate.handler.operate", nothing)
    return found


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("proof", [{}, {"authorization": "forged"}, "no mapping"])
def test_nobody_operates_whom_aws_does_not_vouch_for(
    strangers: Strangers, verb: Verb, proof: object
) -> None:
    bounds = {"count": 1, "deadline": "1h"} if verb is Verb.LIFT else {}
    request = OperationRequest.model_validate(
        {"verb": verb, "names": ["research/train"], "reason": "mine", **bounds}
    )
    answer = handler({"request": request.document(), "proof": proof}, None)
    assert [problem["rule"] for problem in answer["problems"]] == ["identity"]
    assert "results" not in answer
    assert strangers.asked == [request.digest("Reservoir")], (
        "the proof is of this request, to this deployment"
    )
