"""When Python looks for cyclic garbage: not in the middle of a planning pass."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector, and let it go on afterwards if it was running before, errors included.

    A pass makes hundreds of thousands of objects that all live until its end, hardly any of them in a cycle, and the
    collector would walk through them again and again. Reference counts free everything else as ever.
    """
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            gc.enable()
