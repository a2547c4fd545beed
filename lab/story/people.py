"""People with policies of their own, and what they are refused."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.naming import function_name
from lab.story.commands import run_command
from lab.story.world import World
from reservoir.names import Function

NUMBERS = count(1)


class Person:
    """A user with policies, and nothing else."""

    def __init__(
        self,
        world: World,
        *,
        managed: tuple[str, ...] = (),
        statements: tuple[dict[str, Any], ...] = (),
    ) -> None:
        self._world = world
        iam = world.aws.client("iam")
        name = f"person-{next(NUMBERS)}"
        self.arn = str(iam.create_user(UserName=name)["User"]["Arn"])
        for policy in managed:
            iam.attach_user_policy(
                UserName=name, PolicyArn=world.reservoir.outputs[f"{policy}PolicyArn"]
            )
        if statements:
            document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
            iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self._key = {
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }

    def client(self, service: str) -> Any:
        return self._world.aws.client(service, **self._key)

    def environment(self) -> dict[str, str]:
        """Return the variables with which programs act as this person."""
        return {name.upper(): value for name, value in self._key.items()}

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Begin a command as a process of its own, and end it at the end."""
        environment = {**self._world.reservoir.environment(), **self.environment()}
        command = [sys.executable, "-m", "reservoir", *arguments]
        with subprocess.Popen(  # noqa: S603 - our own command line
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            yield process
            process.kill()

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line with this person's credentials."""
        with (
            self._world.hurrying()
            if {"--wait", "self-test"} & set(arguments)
            else nullcontext()
        ):
            return run_command(
                arguments, {**self._world.reservoir.environment(), **self.environment()}
            )


def policy_statements(world: World, function: Function) -> tuple[dict[str, Any], ...]:
    """Return what a function's role may do."""
    iam = world.aws.client("iam")
    configuration = world.aws.client("lambda").get_function_configuration(
        FunctionName=function_name(world.reservoir.outputs["ReservoirDeployment"], function)
    )
    role = configuration["Role"].rsplit("/", 1)[-1]
    documents = [
        iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        policy = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]
        version = iam.get_policy_version(
            PolicyArn=policy["Arn"], VersionId=policy["DefaultVersionId"]
        )
        documents.append(version["PolicyVersion"]["Document"])
    return tuple(chain.from_iterable(document["Statement"] for document in documents))


def refusal(error: ClientError) -> str:
    """Return what was refused; anything but a denial fails the test."""
    code = error.response["Error"]["Code"]
    assert code in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"), code
    return str(error.response["Error"]["Message"])


def all_refused(calls: Iterable[Callable[[], Any]]) -> None:
    """Call each; one that is not denied fails the test."""
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert refusal(error.value)
