"""The client: demand out, facts in, over nothing but SQS and EventBridge (``docs/client.md``)."""

from reservoir.client.asynchronous import AsyncClient
from reservoir.client.client import Client, Submitted
from reservoir.client.errors import (
    ClientError,
    GenerationConflictError,
    NotSubscribedError,
    RejectedError,
    SubscriptionError,
    UnansweredError,
    WithdrawnError,
)
from reservoir.client.facts import Fact
from reservoir.client.subscription import Subscription

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Fact",
    "GenerationConflictError",
    "NotSubscribedError",
    "RejectedError",
    "Submitted",
    "Subscription",
    "SubscriptionError",
    "UnansweredError",
    "WithdrawnError",
]
