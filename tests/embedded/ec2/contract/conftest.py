"""Where the contract tests run: always on the emulation, and on a real account only when asked for twice.

A real run starts instances and reservations that cost money. It needs credentials and, in the environment::

    RESERVOIR_CONTRACT_ON_AWS=I-accept-the-cost
    RESERVOIR_CONTRACT_REGION=us-east-1         (optional)

Everything it makes carries the tag ``reservoir:contract`` and is removed when its test ends.
"""

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoCredentialsError

from lab.embedded.client import EmbeddedAws
from lab.worlds.cloud import Cloud
from tests.embedded.ec2.contract.launch_role import launcher, node_role
from tests.embedded.ec2.contract.sites import POLL_S, Site

CONSENT = "I-accept-the-cost"


def _emulated() -> Site:
    cloud = Cloud()
    groups = cloud.emulation.client("resource-groups")
    return Site(cloud.ec2, groups, lambda: cloud.advance(seconds=POLL_S))


def _of_real_account(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return what makes clients of a real account, if somebody asked for one."""
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
    return partial(boto3.client, region_name=region)


def _real(client: Callable[..., Any]) -> Site:
    return Site(client("ec2"), client("resource-groups"), lambda: time.sleep(POLL_S))


@pytest.fixture(params=["emulation", "aws"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    is_emulated = request.param == "emulation"
    made = _emulated() if is_emulated else _real(_of_real_account(request))
    try:
        yield made
    finally:
        made.clean_up()


@pytest.fixture(params=[pytest.param("emulation", marks=pytest.mark.embedded), "aws"])
def guarded_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """An EC2 behind IAM; ``launcher`` has the permissions of the launch role, and no others."""
    if request.param == "emulation":
        aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
        client: Callable[..., Any] = aws.client
        moment = timedelta(seconds=POLL_S)

        def wait_a_moment() -> None:
            aws.clock.advance(moment)

        made = Site(client("ec2"), client("resource-groups"), wait_a_moment)
    else:
        client = _of_real_account(request)
        made = _real(client)
    try:
        made.node_role = node_role(made, client)
        made.other_role = node_role(made, client)
        made.launcher = launcher(made, client)
        yield made
    finally:
        made.clean_up()
