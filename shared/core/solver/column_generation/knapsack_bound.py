"""What one node's pattern can be worth at most when replicas are whole.

A unit of 4 vCPU holds one replica of 3, not one and a third: in fractions it is worth a third more than it can be.
Where many units are reserved, that third would be lost to the bound of the whole plan.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

# So many parts of a node are told apart. One less than a multiple of 2 to 8, so that what is hardly more than a half, a
# third, ... of a node is seen to be.
_PARTS = 839
# Smaller replicas may be cut in any fractions: they lose little to being whole, and would lose more to the parts.
_SMALL = 0.04
_ROUNDING = 1e-6
_NEVER = -1e18

Array = Any  # numpy's arrays; their generic types say no more here


def most_value(shares: Array, values: Sequence[float]) -> list[float]:
    """Return, for each row of ``shares``, a value that no pattern exceeds.

    ``shares`` has a row for each node and a column for each item: the part of the node that a replica takes, more than
    1 where it may not run. Any weighted mean of the parts of CPU, memory and so on that it takes is such a share: a
    pattern takes no more than all of each. Shares are rounded down, so the figure errs upwards.
    """
    item_values = np.array(values, dtype=float)
    parts = np.floor(shares * _PARTS - _ROUNDING).astype(np.int64)
    is_small = shares < _SMALL
    is_large = ~is_small & (shares <= 1 + _ROUNDING)
    step = np.where(is_small, item_values / np.maximum(shares, 1e-12), 0.0).max(axis=1, initial=0.0) / _PARTS
    # best[offset + p]: the most that p parts of each node are worth; before the offset there is nothing to be had.
    nodes, offset = len(shares), _PARTS + 1
    best = np.full((offset + _PARTS + 1, nodes), _NEVER)
    best[offset] = 0.0
    flat = best.reshape(-1)
    before = (offset - np.where(is_large, parts, offset)) * nodes + np.arange(nodes)[:, None]
    gained = np.where(is_large, item_values, _NEVER)
    for part in range(1, _PARTS + 1):
        with_one_more = (flat.take(before + part * nodes) + gained).max(axis=1, initial=_NEVER)
        best[offset + part] = np.maximum(best[offset + part - 1] + step, with_one_more)
    return [float(value) for value in best[-1]]
