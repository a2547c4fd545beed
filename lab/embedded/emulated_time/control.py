"""The clock's part of the control API."""

from datetime import timedelta
from typing import Any, Final

from lab.embedded.emulated_time.governor import Governor

JsonObject = dict[str, Any]
_FIELDS: Final = frozenset({"advance_s", "coalesce", "rate", "pause", "governed"})


def show_clock(governor: Governor) -> JsonObject:
    """Return what the clock shows, how it runs, and how well the work keeps up."""
    clock = governor.clock
    return {
        "now": clock.now().isoformat(),
        "rate": clock.rate,
        "paused": clock.paused,
        "governed": governor.governed,
        "busy": governor.busy,
        "held_s": round(clock.held_s, 3),
        "worst_lateness_s": round(governor.worst_lateness_s, 3),
    }


def set_clock(governor: Governor, payload: JsonObject) -> JsonObject:
    """Change how the clock runs, then move it; return what it shows when all that is due by then is done.

    Raises
    ------
    ValueError
        For a field that does not exist, or a value that no clock can have.
    """
    unknown = payload.keys() - _FIELDS
    if unknown:
        raise ValueError(f"unknown fields: {sorted(unknown)}")
    governor.step()  # a cron schedule counts from the first look that sees it
    if "governed" in payload:
        governor.govern(governed=_flag(payload, "governed"))
    if "pause" in payload:
        (governor.clock.pause if _flag(payload, "pause") else governor.clock.resume)()
    if "rate" in payload:
        governor.clock.set_rate(float(payload["rate"]))
    governor.look()
    if "advance_s" in payload:
        step = timedelta(seconds=float(payload["advance_s"]))
        governor.advance(step, coalesce=_flag(payload, "coalesce", otherwise=False))
    return show_clock(governor)


def _flag(payload: JsonObject, name: str, *, otherwise: bool | None = None) -> bool:
    value = payload.get(name, otherwise)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value
