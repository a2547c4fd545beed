"""Stored policy as values of the core."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from shared.core.model.node_class import NodeClass
from shared.core.model.node_pool import NodePool
from shared.manifests.kinds.node_class import NodeClassManifest
from shared.manifests.kinds.node_pool import NodePoolManifest
from shared.ports.policy import PolicyKind, PolicyObject


class StoredPolicyError(Exception):
    """A stored manifest is not valid any more: the product that wrote it understood a field that this one does not."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All pools and classes, by name."""

    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()


def policy_of(objects: Iterable[PolicyObject]) -> Policy:
    """Convert stored objects; classes carry what discovery found for them.

    Raises
    ------
    StoredPolicyError
        A manifest cannot be read.
    """
    pools, classes = [], []
    for stored in sorted(objects, key=lambda stored: (stored.kind, stored.name)):
        try:
            if stored.kind is PolicyKind.NODE_POOL:
                pools.append(NodePoolManifest.model_validate(dict(stored.manifest)).to_core())
            else:
                node_class = NodeClassManifest.model_validate(dict(stored.manifest)).to_core()
                classes.append(replace(node_class, status=stored.status.node_class))
        except ValidationError as error:
            raise StoredPolicyError(f"{stored.kind}/{stored.name}: {error.error_count()} problems") from error
    return Policy(tuple(pools), tuple(classes))
