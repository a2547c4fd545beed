"""Tests of the stack."""

import infra  # noqa: F401  # points jsii at the locked Node, before any test imports the CDK
