"""What each NodeClass selects, found and written to its status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from shared.core.node_class import NodeClass, NodeClassStatus
from shared.ports.discovery import LaunchEnvironmentReader
from shared.ports.errors import AwsError

T = TypeVar("T")


class NodeClassDirectory(Protocol):
    """The classes, and where their status is kept."""

    def list_node_classes(self) -> tuple[NodeClass, ...]:
        """Return all classes with their status, by name."""
        ...

    def save_node_class_status(self, name: str, status: NodeClassStatus) -> None:
        """Write what discovery found for the class; whether its launches are blocked is not discovery's to say."""
        ...


@dataclass(frozen=True, slots=True)
class NodeClassResolver:
    """Refreshes statuses. What cannot be read keeps its last good value."""

    environment: LaunchEnvironmentReader
    node_classes: NodeClassDirectory

    def refresh(
        self, node_classes: Sequence[NodeClass], selections: Mapping[str, tuple[str, ...]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Write statuses that changed; return the names of the changed classes and what failed."""
        changed: list[str] = []
        failures: list[str] = []
        for node_class in node_classes:
            status = self._status(node_class, selections[node_class.name], failures)
            if status != node_class.status:
                self.node_classes.save_node_class_status(node_class.name, status)
                changed.append(node_class.name)
        return tuple(changed), tuple(failures)

    def _status(self, node_class: NodeClass, reservation_ids: tuple[str, ...], failures: list[str]) -> NodeClassStatus:
        last = node_class.status

        def read(what: str, call: Callable[[], T], last_good: T) -> T:
            try:
                return call()
            except AwsError as error:
                failures.append(f"{node_class.name}: {what}: {error.code}")
                return last_good

        role = node_class.role
        return replace(
            last,
            reservation_ids=reservation_ids,
            subnets=read("subnets", lambda: self.environment.subnets(node_class.subnet_selector_terms), last.subnets),
            security_group_ids=read(
                "security groups",
                lambda: self.environment.security_group_ids(node_class.security_group_selector_terms),
                last.security_group_ids,
            ),
            machine_images=read(
                "images", lambda: self.environment.machine_images(node_class.ami_selector_terms), last.machine_images
            ),
            instance_profile=node_class.instance_profile
            if role is None
            else read("instance profile", lambda: self.environment.instance_profile(role), last.instance_profile),
        )
