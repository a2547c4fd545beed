import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reservoir.runtime.custom_resource import answered
from reservoir.usecases.policy.deploy_policy import (
    APPLIED,
    NOT_APPLIED,
    CustomResourceAnswer,
)

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


class CloudFormation:
    """Takes answers where a presigned URL points; refuses the first ``refusals`` of them."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.content_types: list[str | None] = []
        self.refusals = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:  # the base class's name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.refusals:
                    outer.refusals -= 1
                    self.send_error(503)
                    return
                outer.content_types.append(self.headers["Content-Type"])
                outer.answers.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def request(self) -> dict[str, Any]:
        return {
            "RequestType": "Create",
            "ResponseURL": f"http://127.0.0.1:{self.server.server_port}/answer?signed",
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Manifests",
        }


@pytest.fixture
def cloud_formation() -> Iterator[CloudFormation]:
    made = CloudFormation()
    thread = threading.Thread(
        target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_success_is_answered(cloud_formation: CloudFormation) -> None:
    answered(lambda _event, _context: CustomResourceAnswer(True, APPLIED))(
        cloud_formation.request(), None
    )
    (answer,) = cloud_formation.answers
    assert answer == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": APPLIED,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Manifests",
        "Data": {"Changed": "0"},
    }
    assert cloud_formation.content_types == [""]


def test_failure_is_answered_with_its_reason_within_what_cloudformation_takes(
    cloud_formation: CloudFormation,
) -> None:
    answered(
        lambda _event, _context: CustomResourceAnswer(False, NOT_APPLIED, "x" * 10_000)
    )(cloud_formation.request(), None)
    (answer,) = cloud_formation.answers
    assert answer["Status"] == "FAILED"
    assert len(json.dumps(answer)) < 4096


def test_a_bug_is_answered_too(cloud_formation: CloudFormation) -> None:
    def fails(_event: dict[str, Any], _context: Any) -> CustomResourceAnswer:
        raise KeyError("secret")

    answered(fails)(cloud_formation.request(), None)
    (answer,) = cloud_formation.answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", NOT_APPLIED)
    assert "secret" not in answer["Reason"]


def test_an_answer_that_is_refused_is_given_again(cloud_formation: CloudFormation) -> None:
    cloud_formation.refusals = 2
    answered(lambda _event, _context: CustomResourceAnswer(True, APPLIED))(
        cloud_formation.request(), None
    )
    assert len(cloud_formation.answers) == 1
