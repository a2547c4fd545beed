"""Whatever is asked in whatever order, no slot is given twice and the counts add up."""

from collections import Counter
from typing import Any

from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.worlds.cloud import TYPE, ZONE_A, Cloud, config

KINDS = ("targeted", "open", "block", "lent")
LIVE = {"pending", "running", "stopping", "shutting-down"}
MARKETS = {"block": "capacity-block", "lent": "interruptible-capacity-reservation"}

commands = st.one_of(
    st.tuples(st.just("launch"), st.sampled_from(KINDS), st.integers(1, 4)),
    st.tuples(st.just("fleet"), st.sampled_from(("targeted", "open")), st.integers(1, 5)),
    st.tuples(st.just("run"), st.just("open"), st.integers(1, 3)),
    st.tuples(st.just("outsider"), st.sampled_from(KINDS), st.integers(1, 3)),
    st.tuples(st.just("terminate"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("stop"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("resize"), st.sampled_from(("targeted", "open")), st.integers(1, 6)),
    st.tuples(st.just("cancel"), st.sampled_from(("targeted", "open")), st.just(0)),
    st.tuples(st.just("reclaim"), st.just("lent"), st.integers(0, 2)),
    st.tuples(st.just("advance"), st.just(""), st.sampled_from((1, 7, 60, 400, 9000))),
)


class Scene:
    """One reservation of each kind, and commands on them."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        lend = {"instance_type": TYPE, "zone": ZONE_A, "count": 2}
        self.ids = {
            "targeted": self.cloud.reserve(3),
            "open": self.cloud.reserve(2, InstanceMatchCriteria="open"),
            "block": self.cloud.control("purchase_capacity_block", **lend, end_in_s=10_000)[
                "capacity_reservation_id"
            ],
            "lent": self.cloud.control("create_interruptible", **lend)[
                "capacity_reservation_id"
            ],
        }

    def perform(self, command: str, kind: str, number: int) -> None:
        """Perform a command; what EC2 refuses is fine."""
        try:
            getattr(self, f"_{command}")(kind, number)
        except (ClientError, ValueError):
            self.check()

    def check(self) -> None:
        instances = self.cloud.emulation.world.instances.values()
        holding = Counter(
            i.reservation_id for i in instances if i.state in LIVE and i.reservation_id
        )
        described = self.cloud.ec2.describe_capacity_reservations()["CapacityReservations"]
        for shown in described:
            reservation_id = shown["CapacityReservationId"]
            inner = self.cloud.emulation.world.reservations[reservation_id]
            if inner.state == "active":
                assert holding[reservation_id] == len(inner.occupants)
                assert inner.used_count <= max(inner.total_count, len(inner.occupants))
            assert 0 <= shown["AvailableInstanceCount"] <= shown["TotalInstanceCount"]
            if shown["State"] == "active" and not inner.reclaiming:
                free = shown["TotalInstanceCount"] - inner.used_count
                assert shown["AvailableInstanceCount"] == max(0, free)
                assert free >= 0 or self._leaving(inner.occupants) >= -free

    def _leaving(self, occupants: dict[str, Any]) -> int:
        """Instances that still hold a slot which has been promised back."""
        return sum(
            self.cloud.emulation.world.instances[i].state == "shutting-down"
            for i in occupants
        )

    def _launch(self, kind: str, number: int) -> None:
        market = (
            {"InstanceMarketOptions": {"MarketType": MARKETS[kind]}}
            if kind in MARKETS
            else {}
        )
        target = {"CapacityReservationTarget": {"CapacityReservationId": self.ids[kind]}}
        self.cloud.run(number, CapacityReservationSpecification=target, **market)

    def _fleet(self, kind: str, number: int) -> None:
        self.cloud.fleet([config(self.cloud.template(target=self.ids[kind]))], total=number)

    def _run(self, _: str, number: int) -> None:
        self.cloud.run(number)

    def _outsider(self, kind: str, number: int) -> None:
        self.cloud.control(
            "outsider_launch", capacity_reservation_id=self.ids[kind], count=number
        )

    def _terminate(self, _: str, number: int) -> None:
        self.cloud.ec2.terminate_instances(InstanceIds=[self._pick(number)])

    def _stop(self, _: str, number: int) -> None:
        self.cloud.ec2.stop_instances(InstanceIds=[self._pick(number)])

    def _resize(self, kind: str, number: int) -> None:
        self.cloud.ec2.modify_capacity_reservation(
            CapacityReservationId=self.ids[kind], InstanceCount=number
        )

    def _cancel(self, kind: str, _: int) -> None:
        self.cloud.ec2.cancel_capacity_reservation(CapacityReservationId=self.ids[kind])

    def _reclaim(self, kind: str, number: int) -> None:
        self.cloud.control(
            "reclaim_interruptible",
            capacity_reservation_id=self.ids[kind],
            target_count=number,
        )

    def _advance(self, _: str, number: int) -> None:
        self.cloud.advance(seconds=number)

    def _pick(self, number: int) -> str:
        ids = [i["InstanceId"] for i in self.cloud.instances()]
        return ids[number % len(ids)] if ids else "i-00000000000000000"


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@given(st.lists(commands, max_size=25))
def test_no_slot_is_given_twice(sequence: list[tuple[str, str, int]]) -> None:
    scene = Scene()
    for command in sequence:
        scene.perform(*command)
        scene.check()
