"""A planning pass is not interrupted by the collector of cyclic garbage."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import functions.disrupt.handler
import functions.provision.handler
from reservoir.runtime.garbage import collection_paused

HANDLERS = {
    "provision": functions.provision.handler.handler,
    "disrupt": functions.disrupt.handler.handler,
}


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """Begin and end every test with a collector that runs."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_rests_within_and_goes_on_after() -> None:
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_goes_on_after_an_error() -> None:
    with pytest.raises(RuntimeError), collection_paused():
        raise RuntimeError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


class Failing:
    """A use case that fails, and tells whether the collector was running then."""

    def run(self, *_: object, **__: object) -> None:
        """Fail."""
        raise RuntimeError(f"collecting: {gc.isenabled()}")


@pytest.mark.parametrize("verb", HANDLERS)
def test_passes_run_without_the_collector(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler: Callable[[dict[str, Any], Any], Any] = HANDLERS[verb]
    monkeypatch.setattr(f"functions.{verb}.handler.{verb}", Failing)
    with pytest.raises(RuntimeError, match="collecting: False"):
        handler({}, None)
    assert gc.isenabled()
