"""One deployment for the integrations that are played on the deployed stack."""

from tests.deployed.conftest import make_once, world
from tests.embedded_fixture import embedded_aws

__all__ = ["embedded_aws", "make_once", "world"]
