"""List nodes."""

from collections.abc import Collection
from dataclasses import dataclass

from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.answers.listed import Named, NodeRow, NodeRowSpec, NodeRowStatus
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.claims.announce import node_detail, placed_workloads


@dataclass(frozen=True, slots=True)
class ListNodes:
    """Lists live nodes, by the index of live claims; ended ones by name, as long as they are kept."""

    claims: NodeClaimStore

    def list(self, names: Collection[str] = ()) -> list[NodeRow]:
        """Return the nodes with these claim or instance ids; without any, all live ones. By claim id.

        Raises UnreadableRowsError for nodes that are named.
        """
        if not names:
            return [_row(claim) for claim in self.claims.list_live()]
        instances = {name for name in names if name.startswith("i-")}
        found = dict(self.claims.get_many(set(names) - instances))
        if instances:
            found.update(
                {
                    claim.id: claim
                    for claim in self.claims.find_by_instance(instances).values()
                }
            )
        return [_row(claim) for _, claim in sorted(found.items())]


def _row(claim: NodeClaim) -> NodeRow:
    detail = node_detail(claim)
    return NodeRow(
        metadata=Named(name=claim.id, labels=dict(claim.labels)),
        spec=NodeRowSpec(
            node_pool=detail.node_pool,
            node_class=detail.node_class,
            instance_type=detail.instance_type,
            zone=detail.zone,
            capacity_type=detail.capacity_type,
            capacity_reservation_id=detail.capacity_reservation_id,
            price_micro_usd_per_hour=detail.price_micro_usd_per_hour or 0,
        ),
        status=NodeRowStatus(
            state=claim.state,
            created_at=claim.created_at,
            running_at=claim.running_at,
            instance_id=claim.instance_id,
            replicas=sum(placed.count for placed in claim.placements),
            is_warm=claim.is_kept_warm or None,
            workloads=placed_workloads(claim.placements, claim.correlation_ids),
            drain_reason=None if claim.drain is None else claim.drain.reason,
            drain_deadline=None if claim.drain is None else claim.drain.deadline,
            plan_id=claim.plan_id,
            failure=claim.failure,
        ),
    )
