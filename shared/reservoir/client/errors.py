"""What the client raises beside the errors of AWS's own library."""

from collections.abc import Sequence

from reservoir.manifests.events import RejectedProblem


class ClientError(Exception):
    """Any of them."""


class NotSubscribedError(ClientError):
    """The call needs an answer, and the client was made without a queue to hear it on."""

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call} needs an answer: give the client the events_queue_url of a subscription"
        )


class UnansweredError(ClientError):
    """No answer came in time. The message may still be applied; sending it again changes nothing twice."""


class GenerationConflictError(ClientError):
    """Another sender has written the workload: nothing of ours is stored. Read it (``status``) and decide again."""


class RejectedError(ClientError):
    """The message cannot be applied; it changed nothing."""

    def __init__(self, key: str, problems: Sequence[RejectedProblem]) -> None:
        told = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
        super().__init__(f"{key} was rejected: {told}")
        self.problems = tuple(problems)


class WithdrawnError(ClientError):
    """The workload was withdrawn while it was waited for, or was never sent."""


class SubscriptionError(ClientError):
    """A subscription cannot be made as it was asked for."""
