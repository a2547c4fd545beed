"""Instances that run their user data: as processes of this machine, for as long as EC2 lets them."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lab.embedded.client import EmbeddedAws
from tests.embedded.conftest import until
from tests.embedded.nodes.test_metadata import launch, node_role

pytestmark = pytest.mark.embedded
# Says who and when it is, starts a program that ignores what its own process group is told, and stays.
USER_DATA = """#!/bin/sh
python - <<'END'
import json, os, subprocess, time, urllib.request
base = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] + "latest/"
ask = urllib.request.Request(base + "api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
token = urllib.request.urlopen(ask).read().decode()
ask = urllib.request.Request(base + "meta-data/instance-id", headers={"X-aws-ec2-metadata-token": token})
name = urllib.request.urlopen(ask).read().decode()
apart = subprocess.Popen(["sleep", "86400"], start_new_session=True)
keys = [key for key in os.environ if key.startswith("AWS_") and "KEY" in key]
print(json.dumps({"name": name, "time": time.time(), "pids": [os.getppid(), apart.pid], "keys": keys}), flush=True)
END
exec sleep 86400
"""


@pytest.fixture(scope="module")
def running_aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws(run_nodes=True) as aws:
        yield aws


def console(aws: EmbeddedAws, instance_id: str) -> str:
    log = aws.folder / "nodes" / instance_id / "console.log"
    return log.read_text() if log.exists() else ""


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_user_data_runs_with_its_instances_metadata_and_time_and_ends_with_it(
    running_aws: EmbeddedAws,
) -> None:
    running_aws.clock.advance(timedelta(days=30))
    instance = launch(running_aws, node_role(running_aws), UserData=USER_DATA)
    running_aws.clock.advance(timedelta(seconds=10))
    said = json.loads(until(lambda: console(running_aws, instance)))
    assert said["name"] == instance
    assert (
        abs(said["time"] - running_aws.clock.now().timestamp())
        < timedelta(days=1).total_seconds()
    )
    assert said["keys"] == [], "credentials are in the metadata alone"
    assert all(lives(pid) for pid in said["pids"])
    running_aws.client("ec2").terminate_instances(InstanceIds=[instance])
    until(lambda: not any(lives(pid) for pid in said["pids"]))


def test_what_is_no_program_is_not_run(running_aws: EmbeddedAws) -> None:
    quiet = launch(running_aws, UserData="[settings.kubernetes]\n")
    loud = launch(running_aws, UserData="#!/bin/sh\necho hello\n")
    running_aws.clock.advance(timedelta(seconds=10))
    assert until(lambda: console(running_aws, loud)) == "hello\n"
    assert not (running_aws.folder / "nodes" / quiet).exists()


def test_nothing_outlives_the_embedded_aws() -> None:
    with EmbeddedAws(run_nodes=True) as aws:
        instance = launch(aws, UserData="#!/bin/sh\necho $$\nexec sleep 86400\n")
        aws.clock.advance(timedelta(seconds=10))
        pid = int(until(lambda: console(aws, instance)))
        assert lives(pid)
    until(lambda: not lives(pid))
    assert os.getpid() != pid


def test_without_being_asked_to_nothing_is_run(embedded_aws: EmbeddedAws) -> None:
    launch(embedded_aws, UserData="#!/bin/sh\necho hello\n")
    embedded_aws.clock.advance(timedelta(seconds=10))
    assert not (embedded_aws.folder / "nodes").exists()
