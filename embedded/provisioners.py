"""CloudFormation resource types that MiniStack refuses, or makes where nothing looks for them."""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from typing import Any, Final

from ministack.services.cloudformation import provisioners

NOT_EVALUATED: Final = "embedded/metric-math-is-not-evaluated"


def install() -> None:
    """Fill the gaps."""
    _accept_metric_math()


def _accept_metric_math() -> None:
    # An alarm on an expression is described as the template says; it stays without data, since nothing evaluates it.
    make_record = provisioners._cw_metric_alarm_record

    def record(name: str, properties: dict[str, Any]) -> Any:
        metrics = properties.get("Metrics")
        if not metrics:
            return make_record(name, properties)
        plain = {key: value for key, value in properties.items() if key != "Metrics"}
        stand_in = {"MetricName": metrics[0]["Id"], "Namespace": NOT_EVALUATED, "TreatMissingData": "missing"}
        return {**make_record(name, {**plain, **stand_in}), "Metrics": metrics}

    provisioners._cw_metric_alarm_record = record
