"""Where the contract tests run: always on the emulation, and on a real account only when asked for twice.

A real run starts instances and reservations that cost money. It needs credentials and, in the environment::

    RESERVOIR_CONTRACT_ON_AWS=I-accept-the-cost
    RESERVOIR_CONTRACT_REGION=us-east-1         (optional)

Everything it makes carries the tag ``reservoir:contract`` and is removed when its test ends.
"""

import os
import time
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import NoCredentialsError

from lab.worlds.cloud import Cloud
from tests.embedded.ec2.contract.sites import POLL_S, Site

CONSENT = "I-accept-the-cost"


def _emulated() -> Site:
    cloud = Cloud()
    groups = cloud.emulation.client("resource-groups")
    return Site(cloud.ec2, groups, lambda: cloud.advance(seconds=POLL_S))


def _real(request: pytest.FixtureRequest) -> Site:
    settings = os.environ  # noqa: TID251 - the person who runs the tests decides here, no code of the product
    if settings.get("RESERVOIR_CONTRACT_ON_AWS") != CONSENT:
        pytest.skip(
            f"costs money: to run on a real account set RESERVOIR_CONTRACT_ON_AWS={CONSENT}"
        )
    request.getfixturevalue("socket_enabled")
    region = settings.get("RESERVOIR_CONTRACT_REGION", "us-east-1")
    try:
        boto3.client("sts", region_name=region).get_caller_identity()
    except NoCredentialsError:
        pytest.skip("a real account was asked for, but there are no AWS credentials")
    ec2 = boto3.client("ec2", region_name=region)
    groups = boto3.client("resource-groups", region_name=region)
    return Site(ec2, groups, lambda: time.sleep(POLL_S))


@pytest.fixture(params=["emulation", "aws"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = _emulated() if request.param == "emulation" else _real(request)
    try:
        yield made
    finally:
        made.clean_up()
