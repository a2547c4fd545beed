"""One deployment for all tutorials."""

from tests.deployed.conftest import make_once, world

__all__ = ["make_once", "world"]
