"""The record function."""

from shared.runtime.adapters import Adapters
from shared.runtime.composition.outside import adapters, once
from shared.usecases.history.keep_events import KeepEvents
from shared.usecases.history.take_sample import CountWhatIsThere, TakeSample


@once
def keep_events() -> KeepEvents:
    """Return what keeps events."""
    return KeepEvents(adapters().history)


@once
def take_sample() -> TakeSample:
    """Return what counts and keeps what there is."""
    outside = adapters()
    return TakeSample(count_from(outside), outside.history)


def publishes_metrics() -> bool:
    """Whether what is measured becomes metrics of CloudWatch too."""
    return adapters().settings.publishes_metrics


def count_from(outside: Adapters) -> CountWhatIsThere:
    """Wire what counts."""
    return CountWhatIsThere(
        outside.reservations, outside.node_claims, outside.workloads, outside.offerings, outside.clock
    )
