"""Scale a pool by the depth of an SQS queue, and answer its drains: ``python -m integrations.worker_pool FILE``."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from integrations.worker_pool.worker_pool import Scale, WorkerPool
from reservoir.client import Client
from reservoir.client.transport import default_clients


def depths(sqs: Any, queue_url: str, every_s: float) -> Callable[[], int]:
    """Return a reader of how many messages wait or are being worked on, which waits between two readings."""

    def read() -> int:
        time.sleep(every_s)
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)[
            "Attributes"
        ]
        return sum(int(found[name]) for name in names)

    return read


def main(file: str) -> None:
    """Run until somebody stops it."""
    config = yaml.safe_load(Path(file).read_text())
    client = Client.connect(config["demandQueueUrl"], config["eventsQueueUrl"])
    pool = WorkerPool(client, config["namespace"], config["name"])
    # Workers give their messages back by themselves: SQS shows them again. So a node may go as soon as it is told.
    drains = threading.Thread(
        target=client.on_draining, args=(lambda _: None, config["namespace"]), daemon=True
    )
    drains.start()
    scale = Scale(
        config["messagesPerWorker"],
        config.get("leastCount", 0),
        config.get("mostCount", 100),
    )
    pool.follow(
        config["template"],
        scale,
        depths(default_clients()("sqs"), config["workQueueUrl"], 15),
        time.monotonic,
    )


if __name__ == "__main__":
    main(sys.argv[1])
