"""The clients of the contract suites, of DynamoDB Local and of ElasticMQ."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.local import ministack
from lab.local.stores import Stores, dynamodb_stores
from tests.oracle import java

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the halves of the contract suites that stay in memory: the ring of the components has them."""
    in_memory = [
        item
        for item in items
        if HERE in item.path.parents and not item.get_closest_marker("embedded")
    ]
    config.hook.pytest_deselected(items=in_memory)
    items[:] = [item for item in items if item not in in_memory]


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[Any]:
    with java.dynamodb_local() as endpoint:
        yield ministack.client("dynamodb", endpoint)


@pytest.fixture(scope="session")
def elasticmq() -> Iterator[str]:
    with java.elasticmq() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """What DynamoDB Local has not: S3 for large decisions, and the stand-ins that are compared."""
    with ministack.running("dynamodb,s3,sqs") as endpoint:
        yield endpoint


@pytest.fixture(params=[pytest.param("dynamodb", marks=pytest.mark.embedded)])
def stores(dynamodb: Any) -> Stores:
    return dynamodb_stores(dynamodb)
