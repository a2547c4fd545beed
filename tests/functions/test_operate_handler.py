"""The handlers of what people sign: what AWS does not vouch for does nothing, in any verb."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from functions.change_policy.handler import handler as change_policy_handler
from functions.operate.handler import handler
from lab.fakes.outside import settings
from reservoir.manifests.answers.operations import OperationRequest, Verb
from reservoir.manifests.answers.policy_request import PolicyRequest
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
    outside = SimpleNamespace(identities=found, settings=settings(deployment="Reservoir"))
    monkeypatch.setattr(
        "reservoir.runtime.composition.parts.signed_requests.process_outside",
        lambda: outside,
    )

    def nothing(*_: object) -> Any:
        raise AssertionError("it was carried out")

    monkeypatch.setattr("functions.operate.handler.operate", nothing)
    monkeypatch.setattr("functions.change_policy.handler.change_policy", nothing)
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


@pytest.mark.parametrize("proof", [{}, {"authorization": "forged"}, "no mapping"])
def test_nobody_changes_policy_whom_aws_does_not_vouch_for(
    strangers: Strangers, proof: object
) -> None:
    request = PolicyRequest(manifests=[{"kind": "Team"}])
    event = {"request": request.document(), "proof": proof}
    answer = change_policy_handler(event, None)
    assert [problem["rule"] for problem in answer["problems"]] == ["identity"]
    assert strangers.asked == [request.digest("Reservoir")]


def test_a_proof_of_an_operation_is_none_of_a_change_of_policy() -> None:
    document = {"manifests": [], "removed": [], "schemaVersion": 1}
    request = PolicyRequest.model_validate(document)
    pause = OperationRequest(verb=Verb.PAUSE, names=["gpu"], reason="OPS-8")
    assert request.digest("Reservoir") != pause.digest("Reservoir")
    assert request.digest("Reservoir") != request.digest("Another")
