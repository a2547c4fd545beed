"""Demand of different character for which there are too few units: what is told of starts is measured on it."""

from typing import Final

from lab.worlds.demand_traces import Stream, Trace, bursts, growth, office, steady, weekly

_P5: Final = "p5.48xlarge"
_G6: Final = "g6.12xlarge"
_M7: Final = "m7i.8xlarge"

# On which what is told is judged; nothing was tuned on them.
JUDGING: Final = (
    Trace("scarce", True, (Stream("train", _P5, 7, 7, steady),), {_P5: 8}),
    Trace(
        "two-lengths",
        True,
        (Stream("short", _G6, 3, 1.5, steady), Stream("long", _G6, 4, 20, steady)),
        {_G6: 8},
    ),
    Trace(
        "gangs", True, (Stream("train", _P5, 5, 8, steady, (2, 4), is_gang=True),), {_P5: 8}
    ),
    Trace("office", True, (Stream("notebooks", _G6, 7, 5, office, (1, 2)),), {_G6: 9}),
    Trace("weekly", True, (Stream("ci", _G6, 7, 4, weekly),), {_G6: 8}),
    Trace("bursts", True, (Stream("sweep", _M7, 8, 3, bursts, (1, 4)),), {_M7: 12}),
    Trace(
        "ladder",
        True,
        (Stream("batch", _M7, 12, 4, office, (1, 2), market="ladder"),),
        {_M7: 12},
    ),
    Trace("growth", False, (Stream("train", _P5, 6, 8, growth),), {_P5: 6}),
)
# On which it was made; other loads, lengths and seeds.
TUNING: Final = (
    Trace("t-scarce", True, (Stream("train", _P5, 9, 6, steady, (1, 2)),), {_P5: 11}),
    Trace("t-office", True, (Stream("ci", _M7, 10, 3, office),), {_M7: 12}),
    Trace(
        "t-gangs",
        True,
        (Stream("train", _G6, 5, 6, steady, (1, 3), is_gang=True),),
        {_G6: 7},
    ),
    Trace(
        "t-lengths",
        True,
        (Stream("short", _P5, 2, 1, steady), Stream("long", _P5, 4, 12, office)),
        {_P5: 7},
    ),
)
