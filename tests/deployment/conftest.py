"""One embedded AWS for the life of deployments."""

from tests.embedded_fixture import embedded_aws

__all__ = ["embedded_aws"]
