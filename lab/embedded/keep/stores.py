"""What MiniStack's services remember: gathered as it is, and put back.

Every service keeps its resources in dictionaries of two types that know accounts and regions; all of them are taken,
of every service, so that none can be forgotten here. MiniStack's own persistence leaves out object bodies, deletes
nothing that is left over, and writes a file a service, so a stop in between would mix two states.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ministack.core.responses import AccountRegionScopedDict, AccountScopedDict
from ministack.services import dynamodb, eventbridge, lambda_svc, scheduler

_SERVICES: Final = "ministack.services."
# What is beside those: when schedules fired last, and the number of the next stream record.
_PLAIN: Final = {
    "eventbridge._rule_last_fired": eventbridge._rule_last_fired,
    "scheduler._schedule_last_fired": scheduler._schedule_last_fired,
}


def gather() -> Mapping[str, Any]:
    """Return the content of all stores by name; nothing may change them until it is written."""
    content = {name: store._data for name, store in _stores() if store._data}
    return {
        "scoped": content,
        "plain": dict(_PLAIN),
        "stream_records": dynamodb._stream_seq_counter,
    }


def restore(content: Mapping[str, Any]) -> None:
    """Put back what ``gather`` returned, in place of whatever is there.

    Raises
    ------
    LookupError
        When a store of that name does not exist.
    """
    for name in content["scoped"]:
        # MiniStack imports a service at its first request
        importlib.import_module(_SERVICES + name.rpartition(".")[0])
    stores = dict(_stores())
    unknown = content["scoped"].keys() - stores.keys()
    if unknown:
        raise LookupError(f"MiniStack has no {', '.join(sorted(unknown))}")
    for name, store in stores.items():
        store._data.clear()
        store._data.update(content["scoped"].get(name, {}))
    for name, values in _PLAIN.items():
        values.clear()
        values.update(content["plain"][name])
    dynamodb._stream_seq_counter = content["stream_records"]


def start_polling() -> None:
    """Let queues feed their functions again; to be called when requests are answered."""
    if lambda_svc._esms._data:
        lambda_svc._ensure_poller()


def _stores() -> Iterator[tuple[str, Any]]:
    """Yield each store once, under the first of its names."""
    seen = set()
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(_SERVICES):
            continue
        for attribute, value in sorted(vars(module).items()):
            if (
                isinstance(value, AccountRegionScopedDict | AccountScopedDict)
                and id(value) not in seen
            ):
                seen.add(id(value))
                yield f"{name.removeprefix(_SERVICES)}.{attribute}", value
