"""The account that is emulated, and the environment that MiniStack reads when it is imported."""

import os
import tempfile
from pathlib import Path
from typing import Final

ACCOUNT_ID: Final = "123456789012"
REGION: Final = "us-east-1"
HOST: Final = "127.0.0.1"
# A key that MiniStack takes for the account's root: tests and deployments use it, functions never see it.
ROOT_ACCESS_KEY_ID: Final = "test"
ROOT_SECRET_ACCESS_KEY: Final = "test"  # noqa: S105 - a secret of nothing
# Clients with this in their user agent take no tokens of the account's buckets.
NOT_THROTTLED: Final = "not-throttled"
# Where the control API answers, for programs beside it.
CONTROL_VARIABLE: Final = "EMBEDDED_AWS_CONTROL"


def prepare_environment(
    port: int, folder: Path, ca_bundle: Path, url: str, log_level: str
) -> None:
    """Set what MiniStack reads from the environment when it is imported."""
    os.environ.update(
        AUTH="true",
        AWS_ACCESS_KEY_ID=ROOT_ACCESS_KEY_ID,
        AWS_SECRET_ACCESS_KEY=ROOT_SECRET_ACCESS_KEY,
        AWS_CA_BUNDLE=str(ca_bundle),
        AWS_DEFAULT_REGION=REGION,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_ENDPOINT_URL=url,  # without it a `provided` function would call the real AWS
        BIND_HOST=HOST,
        GATEWAY_PORT=str(port),
        IOT_MTLS_ENABLED="0",  # else port 8883 is taken
        LAMBDA_EXECUTOR="local",
        LOG_LEVEL=log_level,
        MINISTACK_ACCOUNT_ID=ACCOUNT_ID,
        MINISTACK_HOST=HOST,
        MINISTACK_REGION=REGION,
        MINISTACK_SSL_CERT=str(ca_bundle),
        MINISTACK_SSL_KEY=str(folder / "key.pem"),
        S3_DATA_DIR=str(folder / "s3"),
        SFTP_ENABLED="0",
        STATE_DIR=str(folder / "state"),
        TMPDIR=str(folder),
        USE_SSL="1",
    )
    tempfile.tempdir = str(folder)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "PERSIST_STATE", "S3_PERSIST"):
        os.environ.pop(name, None)
