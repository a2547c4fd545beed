"""A MiniStack for the adapters' tests; the stores twice."""

from collections.abc import Iterator
from typing import Any

import pytest

from lab.local import ministack
from lab.local.stores import Stores, dynamodb_stores, memory_stores


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    with ministack.running("dynamodb,s3,sqs,events,scheduler") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynamodb(aws_endpoint: str) -> Any:
    return ministack.client("dynamodb", aws_endpoint)


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "memory":
        return memory_stores()
    return dynamodb_stores(request.getfixturevalue("dynamodb"))
