"""One deployment for the integrations that are played on the deployed stack."""

from tests.deployed.conftest import make_once, world

__all__ = ["make_once", "world"]
