"""Where processor time goes while the deployed stack works: the emulated AWS, and each function's environments."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from infra.naming import function_name
from lab.embedded.functions.environments import processor_s
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

SERVER: Final = "aws"
_OTHERS: Final = "others"


class Spending:
    """Counts from the moment at which it is made. An environment that began later counts with its start."""

    def __init__(self, world: World) -> None:
        self._aws = world.aws
        deployment = world.output(DEPLOYMENT)
        self._names = {function_name(deployment, each): each.value for each in Function}
        self._server_s = _used_s(self._aws.pid)
        self._before = {
            int(each["pid"]): _used_s(int(each["pid"])) for each in self._aws.environments()
        }

    def figures(self, *functions: Function) -> Mapping[str, float]:
        """Return processor seconds of AWS, of these functions and of all others.

        Of each function, also how many environments were started, and what that took until their first events.
        """
        told = [each.value for each in functions]
        spent = defaultdict[str, float](float)
        starting = defaultdict[str, float](float)
        started = Counter[str]()
        for each in self._aws.environments():
            name, pid = self._names.get(each["function"], _OTHERS), int(each["pid"])
            label = name if name in told else _OTHERS
            spent[label] += _used_s(pid) - self._before.get(pid, 0.0)
            if pid not in self._before:
                started[label] += 1
                starting[label] += each["init_processor_s"] or 0.0
        spent[SERVER] = _used_s(self._aws.pid) - self._server_s
        figures: dict[str, float] = {
            f"{name}_cpu_s": round(spent[name], 2) for name in (SERVER, *told, _OTHERS)
        }
        for name in told:
            figures |= {
                f"{name}_started": started[name],
                f"{name}_starts_cpu_s": round(starting[name], 2),
            }
        return figures


def _used_s(pid: int) -> float:
    try:
        return processor_s(pid) or 0.0
    except OSError:  # an environment that has ended since it was listed
        return 0.0
