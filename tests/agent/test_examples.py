"""The examples for nodes: each is what it says it is, as far as that can be told without the machine."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from reservoir.agent.__main__ import BAD_CONFIGURATION, STOP_S
from reservoir.agent.configuration import Run, read_configuration
from reservoir.core.launching.user_data import filled, wrong_placeholders

EXAMPLES = Path(__file__).parents[2] / "examples" / "nodes"
VALUES = {
    "nodeClaimsTable": "Reservoir-StateNodeClaims",
    "reportsQueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/Reservoir-QueuesReports",
}
UNIT = EXAMPLES / "reservoir-agent.service"
METADATA_UNIT = EXAMPLES / "reservoir-metadata.service"
# Addresses to ask from, as an instance has them.
SOURCES = ("ip link set lo up", "ip -6 addr add fd00:1::1/64 dev lo || true")
# What the kernel says of an address to root, who has no route in an empty network, and then to nobody.
ASK = """
import errno, os, socket, sys
for user in (0, 65534):
    os.setuid(user)
    family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    try:
        socket.socket(family, socket.SOCK_DGRAM).connect((sys.argv[1], 80))
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def _found(program: str) -> str:
    found = shutil.which(program)
    assert found is not None
    return found


def user_data(name: str) -> str:
    return filled((EXAMPLES / name).read_text(), VALUES)


def cloud_config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(user_data("cloud-init.yaml"))
    return found


def of_al2023() -> str:
    return user_data("al2023.sh").partition("<<'END'\n")[2].partition("\nEND\n")[0]


def of_cloud_init() -> str:
    (file,) = cloud_config()["write_files"]
    assert file["path"] == "/etc/reservoir/agent.toml"
    return str(file["content"])


@pytest.mark.parametrize(
    "text",
    [of_al2023(), of_cloud_init(), user_data("agent.toml")],
    ids=["al2023", "cloud", "file"],
)
def test_the_agent_takes_its_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    found = read_configuration(file)
    assert (found.node_claims_table, found.reports_queue_url) == tuple(VALUES.values())


@pytest.mark.parametrize("name", ["al2023.sh", "cloud-init.yaml", "bottlerocket.toml"])
def test_user_data_asks_for_what_there_is(name: str) -> None:
    assert list(wrong_placeholders((EXAMPLES / name).read_text())) == []


def test_the_script_is_one() -> None:
    script = user_data("al2023.sh")
    assert script.startswith("#!/bin/sh\n")
    subprocess.run([_found("sh"), "-n"], input=script, text=True, check=True)  # noqa: S603 - reads it, runs nothing


def test_cloud_init_gets_a_cloud_config_of_modules_that_it_has() -> None:
    assert user_data("cloud-init.yaml").startswith("#cloud-config\n")
    assert cloud_config().keys() == {"write_files", "runcmd"}
    assert all(
        isinstance(word, str) for command in cloud_config()["runcmd"] for word in command
    )


def test_bottlerocket_gets_settings_that_it_has() -> None:
    settings = tomllib.loads(user_data("bottlerocket.toml"))
    (container,) = settings["settings"].pop("host-containers").values()
    assert settings == {"settings": {}}
    assert container.keys() <= {"enabled", "superpowered", "source", "user-data"}


def runs_of(text: str, tmp_path: Path) -> tuple[Run, ...]:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    return read_configuration(file).runs


@pytest.mark.parametrize(
    "text",
    [of_al2023(), of_cloud_init(), user_data("agent.toml")],
    ids=["al2023", "cloud", "file"],
)
def test_the_examples_run_work_as_a_user_or_in_a_container(
    text: str, tmp_path: Path
) -> None:
    runs = runs_of(text, tmp_path)
    assert [run.workload for run in runs if not (run.user or run.image)] == []


@pytest.mark.parametrize("name", ["al2023.sh", "cloud-init.yaml"])
def test_the_examples_make_the_users_of_their_work(name: str, tmp_path: Path) -> None:
    text = of_al2023() if name == "al2023.sh" else of_cloud_init()
    (user,) = {run.user for run in runs_of(text, tmp_path)}
    made = [line for line in user_data(name).splitlines() if "useradd" in line]
    assert [user in line for line in made] == [True]


def test_the_agent_does_not_start_while_its_work_could_reach_the_metadata() -> None:
    lines = UNIT.read_text().splitlines()
    assert f"Requires={METADATA_UNIT.name}" in lines
    (after,) = [line for line in lines if line.startswith("After=")]
    assert METADATA_UNIT.name in after.split()
    assert "NoNewPrivileges=yes" in lines


def makes_networks() -> bool:
    """Whether this machine lets the test have a network of its own."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return False
    return not subprocess.run(  # noqa: S603 - runs nothing
        [_found("unshare"), "--net", _found("true")], capture_output=True, check=False
    ).returncode


@pytest.mark.skipif(not makes_networks(), reason="needs a network of its own to change")
@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254"])
def test_root_alone_reaches_the_metadata(address: str) -> None:
    commands = [
        line.removeprefix("ExecStart=")
        for line in METADATA_UNIT.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    script = "\n".join(["set -e", *SOURCES, *commands, f'exec "$0" -c "$1" {address}'])
    asked = subprocess.run(  # noqa: S603 - in a network of its own
        [_found("unshare"), "--net", _found("sh"), "-c", script, sys.executable, ASK],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (asked.stdout.split(), asked.stderr) == (["ENETUNREACH", "EACCES"], "")


def test_the_unit_knows_the_agents_ways() -> None:
    unit = UNIT.read_text()
    assert f"RestartPreventExitStatus={BAD_CONFIGURATION}\n" in unit
    (timeout_s,) = [
        line.partition("=")[2]
        for line in unit.splitlines()
        if line.startswith("TimeoutStopSec=")
    ]
    assert int(timeout_s) > STOP_S


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not on this machine"
)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(
        UNIT.read_text().replace("/opt/reservoir/bin/reservoir-agent", _found("true"))
    )
    shutil.copy(METADATA_UNIT, tmp_path)
    checked = subprocess.run(  # noqa: S603 - as above
        [_found("systemd-analyze"), "verify", unit, tmp_path / METADATA_UNIT.name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
