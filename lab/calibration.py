"""How fast this machine is: two fixed pieces of work, so that figures of machines can be compared."""

import time
from collections.abc import Callable

Figures = dict[str, object]


def calibrate() -> Figures:
    """Time a fixed piece of pure Python and one of NumPy (the best of five), so that machines can be compared."""
    import numpy as np

    def numpy() -> float:
        amounts = np.arange(400_000, dtype=float).reshape(400, 1000) % 97
        return float(
            np.where(amounts > 48, amounts, 0.0).max(axis=1).sum()
            + (amounts @ amounts.T).sum()
        )

    return {
        "calibration_python_s": calibration_python_s(),
        "calibration_numpy_s": _best_cpu_s(numpy),
    }


def calibration_python_s() -> float:
    """Time the piece of pure Python alone."""

    def python() -> int:
        counts: dict[int, int] = {}
        for number in range(200_000):
            counts[number * 7919 % 1009] = counts.get(number % 1009, 0) + (number & 7)
        return sum(counts.values())

    return _best_cpu_s(python)


def _best_cpu_s(piece: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.process_time()
        piece()
        times.append(time.process_time() - started)
    return round(min(times), 5)
