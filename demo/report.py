"""The closing table, and the last checks on EC2's state."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table

from demo.observer import Observed
from demo.scenario import Story
from embedded.client import EmbeddedAws

MICRO: Final = 1_000_000


def closing_table(story: Story, on_demand_micro_usd: Mapping[str, int]) -> RenderableType:
    """Say where each part of the demand ran, how full reservations were, and what it cost."""
    return Group(_demand(story.observer.seen), _units(story), _cost(story.observer.seen, on_demand_micro_usd))


def _demand(seen: Observed) -> Table:
    table = Table(title="Where the demand ran (replicas, at first placement)")
    for column in ("workload", "reserved", "spot", "on-demand"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    counts: dict[str, Counter[str]] = {}
    for detail in seen.launched.values():
        for workload in detail["workloads"]:
            name = f"{workload['namespace']}/{workload['name']}"
            counts.setdefault(name, Counter())[detail["node"]["capacityType"]] += workload["replicas"]
    for name, by_market in sorted(counts.items()):
        table.add_row(name, *(str(by_market[market]) for market in ("reserved", "spot", "on-demand")))
    return table


def _units(story: Story) -> Table:
    table = Table(title="Reserved units in use at the peak")
    for column in ("reservation", "type", "used", "of"):
        table.add_column(column)
    for it in story.observer.seen.reservations:
        table.add_row(it.title, it.instance_type, str(story.peak[it.title]), str(it.total_count))
    return table


def _cost(seen: Observed, on_demand_micro_usd: Mapping[str, int]) -> Table:
    """Compare what all launched nodes are charged for with the same nodes bought on demand.

    The figure leaves out what the reservations cost: they are paid for whether they are used or not.
    """
    nodes = [detail["node"] for detail in seen.launched.values()]
    paid = sum(node.get("priceMicroUsdPerHour", 0) for node in nodes)
    prepaid = sum(on_demand_micro_usd[node["instanceType"]] for node in nodes if node["capacityType"] == "reserved")
    table = Table(title="Hourly cost of all nodes launched (emulated prices; reservations themselves not counted)")
    for column in ("paid beside the reservations", "same nodes, reserved ones on demand", "saved"):
        table.add_column(column, justify="right")
    total = paid + prepaid
    share = f"{100 * prepaid // total} %" if total else "-"
    table.add_row(f"{paid / MICRO:.2f} USD", f"{total / MICRO:.2f} USD", share)
    return table


def violations(story: Story, aws: EmbeddedAws, dead_letter_queue_urls: list[str]) -> Iterator[str]:
    """Yield everything about the final state that must not be."""
    seen = story.observer.refresh()
    for identity in seen.over_count:
        yield f"reservation {identity} was used beyond its count"
    for instance in seen.live():
        if instance.claim_id is None:
            yield f"instance {instance.id} runs without a claim"
    claims = Counter(instance.claim_id for instance in seen.live())
    for claim_id, count in claims.items():
        if count > 1:
            yield f"claim {claim_id} has {count} instances"
    for name, wanted in story.wanted.items():
        placed = seen.placed[name]
        if placed > wanted or (placed < wanted and name not in seen.pending):
            yield f"{name}: {placed} of {wanted} replicas have a place, and nobody said why"
    sqs = aws.client("sqs")
    for url in dead_letter_queue_urls:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            yield f"{url.rsplit('/', 1)[-1]} holds {message['Body'][:200]}"


def on_demand_prices(aws: EmbeddedAws, instance_types: set[str]) -> dict[str, int]:
    """Ask the price list for on-demand prices in micro-USD an hour."""
    pricing = aws.client("pricing")
    return {name: _on_demand_price(pricing, name, aws.region) for name in sorted(instance_types)}


def _on_demand_price(pricing: object, instance_type: str, region: str) -> int:
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    answer = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)  # type: ignore[attr-defined]  # boto3 client
    (product,) = answer["PriceList"]
    (term,) = json.loads(product)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    return round(float(dimension["pricePerUnit"]["USD"]) * MICRO)
