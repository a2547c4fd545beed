"""CloudFormation resource types that MiniStack lacks or makes in the wrong place."""

from typing import Any


def install(ec2: Any) -> None:
    """."""
