"""The rooms whose code is changed, and the tests that are to notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Room:
    """Code that is changed step by step, and the tests of the same room."""

    name: str  # its folder, or its module, below shared/reservoir
    tests: tuple[str, ...]

    @property
    def is_module(self) -> bool:
        """Whether it is one module, not a folder."""
        return self.name.endswith(".py")

    @property
    def folder_name(self) -> str:
        """Its name as that of one folder."""
        return self.name.removesuffix(".py").replace("/", "-")


ROOMS: Final = (
    Room("core/capacity", ("tests/core/capacity",)),
    Room(
        "core/disruption",
        ("tests/core/disruption", "tests/core/sharing/test_reclaim.py"),
    ),
    Room("core/launching", ("tests/core/launching",)),
    Room("core/node_life", ("tests/core/node_life",)),
    Room("core/safety", ("tests/core/safety",)),
    Room("core/sharing", ("tests/core/sharing",)),
    Room("usecases/accounting", ("tests/usecases/test_accounting.py",)),
    Room(
        "usecases/demand",
        (
            "tests/usecases/demand",
            "tests/usecases/test_counted_in_turns.py",
            "tests/usecases/test_keep_demand.py",
        ),
    ),
    Room(
        "usecases/draining",
        (
            "tests/usecases/node_life/test_draining.py",
            "tests/usecases/node_life/test_expire.py",
            "tests/usecases/node_life/test_succession.py",
        ),
    ),
    Room("usecases/launching", ("tests/usecases/launching",)),
    Room("usecases/provisioning", ("tests/usecases/provisioning",)),
    Room(
        "adapters/dynamodb/ledger.py", ("tests/adapters/dynamodb/test_state_contract.py",)
    ),
)
