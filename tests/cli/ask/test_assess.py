"""``reservoir assess`` on an emulated EC2 on which nothing of Reservoir is deployed."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from lab.worlds.cloud import TYPE, Cloud
from reservoir.adapters.pricing import AwsPriceReader
from reservoir.ports.errors import RefusedError
from tests.cli.world_stack import invoke

ONE_REGION = ("--region", "us-east-1")


class Refusing:
    """EC2 in a region that the account has not enabled."""

    def get_paginator(self, _name: str) -> Any:
        raise ClientError(
            {"Error": {"Code": "AuthFailure", "Message": "not enabled"}},
            "DescribeInstances",
        )


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """One reservation of two, of which one runs; an instance on demand beside it; one that ends in a week."""
    cloud = Cloud()
    held = cloud.reserve(
        2, EndDateType="limited", EndDate=cloud.clock.now() + timedelta(days=365)
    )
    cloud.run(
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": held}
        }
    )
    cloud.run(CapacityReservationSpecification={"CapacityReservationPreference": "none"})

    def client(profile: str | None, service: str, region: str | None) -> Any:
        if profile == "locked-out":
            raise NoCredentialsError
        if region == "eu-west-9":
            return Refusing()
        return cloud.emulation.client(service)

    monkeypatch.setattr("reservoir.cli.assessing.client_of", client)
    monkeypatch.setattr("reservoir.adapters.clients.region_of", lambda _profile: None)
    return cloud


def answer(*arguments: str) -> Any:
    result = invoke(None, "assess", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_idles_and_what_is_paid_for_beside_it(cloud: Cloud) -> None:
    (region,) = answer(*ONE_REGION)["regions"]
    (held,) = region["reservations"]
    assert (held["total"], held["free"], held["instanceType"]) == (2, 1, TYPE)
    assert [it["instances"] for it in held["holders"]] == [1]
    prices = AwsPriceReader(
        cloud.emulation.client("pricing"), cloud.ec2, region="us-east-1", clock=cloud.clock
    ).on_demand()
    assert held["idleMicroUsdPerHour"] == prices[TYPE] > 0
    (beside,) = region["beside"]
    assert (beside["instances"], beside["fit"], beside["microUsdPerHour"]) == (
        1,
        1,
        prices[TYPE],
    )


@pytest.mark.usefixtures("cloud")
def test_the_text_fits_a_terminal_and_says_the_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reservoir.cli.commands.ask.assess.terminal_width", lambda: 80)
    result = invoke(None, "assess", *ONE_REGION, columns=80)
    assert result.exit_code == 0
    assert (
        "us-east-1: 2 units in 1 reservation\n  1 free, 0.10 USD an hour idle\n"
        in result.stdout
    )
    assert "  1 instance on demand would fit them, 0.10 USD an hour\n" in result.stdout
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.usefixtures("cloud")
def test_the_policy_that_fits_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    assert invoke(None, "assess", *ONE_REGION, "--policy", str(file)).exit_code == 0
    text = file.read_text()
    (found,) = answer(*ONE_REGION)["regions"][0]["reservations"]
    assert f"id: {found['id']}" in text
    result = invoke(None, "validate", "-f", str(file))
    assert (result.exit_code, result.stdout) == (0, "2 valid\n"), result.output


def test_without_a_reservation_no_policy_is_written(cloud: Cloud, tmp_path: Path) -> None:
    for described in cloud.ec2.describe_capacity_reservations()["CapacityReservations"]:
        cloud.ec2.cancel_capacity_reservation(
            CapacityReservationId=described["CapacityReservationId"]
        )
    file = tmp_path / "policy.yaml"
    result = invoke(None, "assess", *ONE_REGION, "--policy", str(file))
    assert (result.exit_code, file.exists()) == (0, False)
    assert "is not written" in result.stderr


@pytest.mark.usefixtures("cloud")
def test_a_place_that_cannot_be_read_leaves_the_others() -> None:
    found = answer("--region", "us-east-1", "--region", "eu-west-9")["regions"]
    assert [(it["region"], "unknown" in it) for it in found] == [
        ("us-east-1", False),
        ("eu-west-9", True),
    ]
    both = answer(*ONE_REGION, "--profile", "locked-out", "--profile", "open")["regions"]
    assert [(it["profile"], "unknown" in it) for it in both] == [
        ("locked-out", True),
        ("open", False),
    ]
    alone = invoke(None, "assess", "--region", "eu-west-9")
    assert (alone.exit_code, "nothing could be read" in alone.stderr) == (2, True)


@pytest.mark.usefixtures("cloud")
def test_without_prices_the_counts_stay_and_money_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_self: object) -> Any:
        raise RefusedError("AccessDeniedException", "pricing")

    monkeypatch.setattr("reservoir.cli.assessing.AwsPriceReader.on_demand", refuse)
    (region,) = answer(*ONE_REGION)["regions"]
    assert "idleMicroUsdPerHour" not in region["reservations"][0]
    assert "no price is known" in region["notes"][0]
    assert "1 free, not known an hour idle" in invoke(None, "assess", *ONE_REGION).stdout


@pytest.mark.usefixtures("cloud")
def test_who_names_no_region_and_who_wants_a_policy_of_two_is_told(tmp_path: Path) -> None:
    nowhere = invoke(None, "assess")
    assert (nowhere.exit_code, "no AWS region is chosen" in nowhere.stderr) == (2, True)
    two = invoke(
        None,
        "assess",
        *ONE_REGION,
        "--region",
        "eu-west-1",
        "--policy",
        str(tmp_path / "x"),
    )
    assert (two.exit_code, "a policy is of one place" in two.stderr) == (2, True)


def test_nothing_is_changed(cloud: Cloud) -> None:
    before = (
        cloud.ec2.describe_capacity_reservations()["CapacityReservations"],
        len(cloud.events),
    )
    answer(*ONE_REGION)
    assert (
        cloud.ec2.describe_capacity_reservations()["CapacityReservations"],
        len(cloud.events),
    ) == before
