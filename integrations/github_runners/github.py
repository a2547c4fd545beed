"""The three calls of GitHub's API that runners need, for the runners of an organisation or of one repository."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_TIMEOUT_S: Final = 10
_CONFLICT, _BUSY, _NOT_FOUND = 409, 422, 404

# Method, path and body to status and answer; an answer is an object or None.
Call = Callable[[str, str, Mapping[str, Any] | None], tuple[int, Any]]


class GitHubError(Exception):
    """GitHub did not answer as documented; what it was asked with is not told."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """Speaks for one scope, ``orgs/ORG`` or ``repos/OWNER/NAME``."""

    call: Call
    scope: str
    runner_group_id: int = 1

    def configuration(self, runner: str, labels: list[str]) -> str:
        """Register a runner for one job; return what it is started with, which is a secret.

        A runner of that name, left by a machine that is gone, is removed first.
        """
        body = {
            "name": runner,
            "runner_group_id": self.runner_group_id,
            "labels": labels,
            "work_folder": "_work",
        }
        path = f"/{self.scope}/actions/runners/generate-jitconfig"
        status, answer = self.call("POST", path, body)
        if status == _CONFLICT and self.remove(runner):
            status, answer = self.call("POST", path, body)
        if status != 201:
            raise GitHubError(f"no configuration for {runner}: status {status}")
        return str(answer["encoded_jit_config"])

    def remove(self, runner: str) -> bool:
        """Remove a runner that is idle; return False for one that runs a job, which GitHub does not remove."""
        listed = f"/{self.scope}/actions/runners?name={urllib.parse.quote(runner, safe='')}"
        status, answer = self.call("GET", listed, None)
        if status != 200:
            raise GitHubError(f"no list of runners: status {status}")
        for found in answer["runners"]:
            if found["name"] == runner:
                status, _ = self.call(
                    "DELETE", f"/{self.scope}/actions/runners/{int(found['id'])}", None
                )
                if status == _BUSY:
                    return False
                if status not in (204, _NOT_FOUND):
                    raise GitHubError(f"{runner} was not removed: status {status}")
        return True

    def is_over(self, repository: str, job_id: int) -> bool:
        """Whether a job is known to have ended; one that cannot be found may belong to another repository."""
        status, answer = self.call(
            "GET", f"/repos/{repository}/actions/jobs/{job_id}", None
        )
        if status == _NOT_FOUND:
            return False
        if status != 200:
            raise GitHubError(f"job {job_id} cannot be read: status {status}")
        return bool(answer["status"] == "completed")


def https(api: str, token: str) -> Call:
    """Return calls of the API at ``api``, such as ``https://api.github.com``; the token goes there and nowhere else."""
    if not api.startswith("https://"):
        raise ValueError("the token is sent over HTTPS only")

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 - `api` begins with https://, or this is not reached
            api + path,
            None if body is None else json.dumps(body).encode(),
            {
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {token}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the same request
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, None

    return call
