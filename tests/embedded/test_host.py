"""The host starts, answers, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from lab.embedded.client import ControlError, EmbeddedAws
from tests.embedded.conftest import Resources, until

pytestmark = pytest.mark.embedded


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_run_side_by_side_and_leave_nothing(embedded_aws: EmbeddedAws) -> None:
    with EmbeddedAws() as other:
        assert other.endpoint_url != embedded_aws.endpoint_url
        function = Resources(other).function(
            "import os\ndef handle(event, context): return os.getpid()"
        )
        worker, _ = Resources(other).invoke(function, {})
        assert is_running(worker)
        elsewhere = embedded_aws.client("lambda").list_functions()["Functions"]
        assert function not in {each["FunctionName"] for each in elsewhere}
        pid, folder = other.pid, other.folder
    assert not is_running(pid)
    until(lambda: not is_running(worker))
    assert not folder.exists()


@pytest.mark.parametrize("service", ["dynamodb", "cloudformation"])
def test_answers_are_dated_by_the_emulated_time(
    embedded_aws: EmbeddedAws, service: str
) -> None:
    clients = {
        "dynamodb": lambda: embedded_aws.client("dynamodb").list_tables(),
        "cloudformation": lambda: embedded_aws.client("cloudformation").list_stacks(),
    }
    embedded_aws.clock.advance(timedelta(days=3), coalesce=True)
    headers = clients[service]()["ResponseMetadata"]["HTTPHeaders"]
    told = parsedate_to_datetime(headers["date"])
    assert abs(embedded_aws.clock.now() - told) < timedelta(hours=1)


def test_the_host_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from lab.embedded.client import EmbeddedAws\n"
            "aws = EmbeddedAws(); aws.start(); print(aws.pid, aws.folder, flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        pid, folder = parent.stdout.readline().split()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    until(lambda: not is_running(int(pid)))
    assert not Path(folder).exists()


def _listening_addresses(pid: int) -> set[str]:
    """Return the addresses on which a process listens, as Linux writes them (hexadecimal, bytes reversed)."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile: not one of those that listen
            sockets.add(str(descriptor.readlink()))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        if (file := Path(f"/proc/{pid}/net/{table}")).is_file()
        for line in file.read_text().splitlines()[1:]
    ]
    listening = "0A"
    return {
        row[1].split(":")[0]
        for row in rows
        if row[3] == listening and f"socket:[{row[9]}]" in sockets
    }


def test_nobody_else_can_reach_it(embedded_aws: EmbeddedAws) -> None:
    assert _listening_addresses(embedded_aws.pid) == {"0100007F"}  # 127.0.0.1


def test_a_host_that_cannot_start_says_why(embedded_aws: EmbeddedAws) -> None:
    taken = int(embedded_aws.endpoint_url.rpartition(":")[2])
    with pytest.raises(RuntimeError, match="Address already in use"):
        EmbeddedAws(port=taken).start()


def test_reset_makes_the_account_empty_and_keeps_the_time(
    embedded_aws: EmbeddedAws,
) -> None:
    before = embedded_aws.clock.advance(timedelta(hours=1))
    embedded_aws.clock.pause()
    Resources(embedded_aws).queue()
    embedded_aws.client("ec2").create_launch_template(
        LaunchTemplateName="left", LaunchTemplateData={"KeyName": "key"}
    )
    embedded_aws.fault("throttle")
    embedded_aws.reset()
    assert not embedded_aws.client("sqs").list_queues().get("QueueUrls")
    assert embedded_aws.client("ec2").describe_launch_templates()["LaunchTemplates"] == []
    assert embedded_aws.faults() == []
    assert embedded_aws.clock.now() >= before
    until(lambda: embedded_aws.clock.now() > before)  # it runs again


def test_a_paused_clock_stands_still_and_a_long_poll_still_ends(
    embedded_aws: EmbeddedAws,
) -> None:
    url, _ = Resources(embedded_aws).queue()
    paused = embedded_aws.clock.pause()
    try:
        assert "Messages" not in embedded_aws.client("sqs").receive_message(
            QueueUrl=url, WaitTimeSeconds=1
        )
        assert embedded_aws.clock.now() == paused
    finally:
        embedded_aws.clock.resume()


@pytest.mark.parametrize(
    ("method", "path", "payload", "reason"),
    [
        ("POST", "/clock", {"advance_s": -1}, "only moves forward"),
        ("POST", "/clock", {"jump": 1}, "unknown fields"),
        ("POST", "/faults", {"action": "explode"}, "unknown action"),
        ("POST", "/ec2/explode", {}, "no control action"),
        ("GET", "/nothing", None, "no operation"),
    ],
)
def test_the_control_api_says_what_it_refuses(
    embedded_aws: EmbeddedAws,
    method: str,
    path: str,
    payload: dict[str, object] | None,
    reason: str,
) -> None:
    with pytest.raises(ControlError, match=reason):
        embedded_aws.control.call(method, path, payload)


def test_public_parameters_name_images_that_there_are(embedded_aws: EmbeddedAws) -> None:
    ssm, ec2 = embedded_aws.client("ssm"), embedded_aws.client("ec2")
    for name, start in (
        ("ami-amazon-linux-latest/al2023-ami-kernel-default-arm64", "al2023-ami-2023."),
        ("ami-amazon-linux-latest/amzn2-ami-kernel-5.10-hvm-x86_64-gp2", "amzn2-ami-"),
        ("bottlerocket/aws-ecs-2/x86_64/latest/image_id", "bottlerocket-aws-ecs-2-"),
    ):
        told = ssm.get_parameter(Name=f"/aws/service/{name}")["Parameter"]["Value"]
        (image,) = ec2.describe_images(ImageIds=[told])["Images"]
        assert image["Name"].startswith(start)
