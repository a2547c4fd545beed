from tests.embedded_fixture import embedded_aws

__all__ = ["embedded_aws"]
