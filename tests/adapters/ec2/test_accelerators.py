"""Accelerators of the types of the last years, as EC2 describes them (moto's copy of its answer)."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from lab.embedded.ec2.market.catalogue import instance_types
from lab.fakes.pages import Pages
from reservoir.adapters.ec2.accelerators import accelerators
from reservoir.adapters.ec2.instance_types import Ec2InstanceTypeReader, parse
from reservoir.core.scheduling_terms import labels

GPU = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"
CORE = "aws.amazon.com/neuroncore"

# resources, GPUs' or devices' name, GPUs' memory each in MiB
TABLE = {
    "g4dn.12xlarge": ({GPU: 4}, "t4", "16384"),
    "g6.48xlarge": ({GPU: 8}, "l4", "22888"),
    "g6e.48xlarge": ({GPU: 8}, "l40s", "45776"),
    "g6f.large": ({GPU: 1}, "l4", "2861"),
    "g6f.4xlarge": ({GPU: 1}, "l4", "11444"),
    "gr6f.4xlarge": ({GPU: 1}, "l4", "11444"),
    "g7e.2xlarge": ({GPU: 1}, "rtx-pro-server-6000", "98304"),
    "g7e.48xlarge": ({GPU: 8}, "rtx-pro-server-6000", "98304"),
    "p4de.24xlarge": ({GPU: 8}, "a100", "81920"),
    "p5.4xlarge": ({GPU: 1}, "h100", "81920"),
    "p5.48xlarge": ({GPU: 8}, "h100", "81920"),
    "p5e.48xlarge": ({GPU: 8}, "h200", "144384"),
    "p5en.48xlarge": ({GPU: 8}, "h200", "144384"),
    "p6-b200.48xlarge": ({GPU: 8}, "b200", "183359"),
    "p6-b300.48xlarge": ({GPU: 8}, "b300", "275040"),
    "inf1.24xlarge": ({NEURON: 16, CORE: 64}, "inferentia", None),
    "inf2.48xlarge": ({NEURON: 12, CORE: 24}, "inferentia2", None),
    "trn1n.32xlarge": ({NEURON: 16, CORE: 32}, "trainium", None),
    "trn2.3xlarge": ({NEURON: 1, CORE: 8}, "trainium2", None),
    "trn2.48xlarge": ({NEURON: 16, CORE: 128}, "trainium2", None),
    # EC2 says nothing of them
    "trn2u.48xlarge": ({NEURON: 16, CORE: 128}, "trainium2", None),
    "dl2q.24xlarge": ({"qualcomm.com/qaic": 8}, "qualcomm-ai100", None),
    "m7i.large": ({}, None, None),
}
GENERIC = {"cpu", "memory", "pods", "ephemeral-storage", "vpc.amazonaws.com/efa"}


def described(name: str) -> Any:
    return parse(instance_types()[name], "us-east-1", Fraction("0.075")).instance_type


@pytest.mark.parametrize("name", TABLE)
def test_types_have_the_accelerators_that_guests_see(name: str) -> None:
    resources, device, memory = TABLE[name]
    found = described(name)
    told = found.requirements.labels()
    assert {
        key: count for key, count in found.capacity.items() if key not in GENERIC
    } == resources
    assert (
        told.get(labels.INSTANCE_GPU_NAME, told.get(labels.INSTANCE_ACCELERATOR_NAME))
        == device
    )
    assert told.get(labels.INSTANCE_GPU_MEMORY) == memory
    if resources:
        count = told.get(
            labels.INSTANCE_GPU_COUNT, told.get(labels.INSTANCE_ACCELERATOR_COUNT)
        )
        assert count == str(next(iter(resources.values())))


def test_all_types_of_an_answer_are_read() -> None:
    assert (
        len(
            [
                described(name)
                for name, info in instance_types().items()
                if "mac" not in name
            ]
        )
        > 1_300
    )


NEEDED = {
    "InstanceType": "x9.large",
    "MemoryInfo": {"SizeInMiB": 1024},
    "VCpuInfo": {"DefaultVCpus": 2},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "NetworkInfo": {},
}


@pytest.mark.parametrize("lacks", [key for key in NEEDED if key != "InstanceType"])
def test_a_type_that_lacks_what_all_have_hides_no_other(lacks: str) -> None:
    odd = {key: value for key, value in NEEDED.items() if key != lacks}
    assert listed(odd, instance_types()["m7i.large"]) == ["m7i.large"]


@pytest.mark.parametrize(
    "told",
    [
        {"NeuronInfo": {"NeuronDevices": [{"Name": "Trainium9", "Count": 4}]}},
        {"NeuronInfo": {"NeuronDevices": [{"Name": "Trainium9"}]}},
        {"GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA"}]}},
        {"GpuInfo": {"Gpus": [{"Count": 2, "GpuPartitionSize": 0.5}]}},
        {"InferenceAcceleratorInfo": {"Accelerators": [{}]}},
        {"NetworkInfo": {"EfaInfo": {"MaximumEfaInterfaces": 1}, "NetworkCards": [{}]}},
    ],
)
def test_a_type_is_read_whatever_its_accelerators_and_cards_lack(told: Any) -> None:
    assert listed(NEEDED | told) == ["x9.large"]


class Describing:
    """EC2, which answers that there are these types."""

    def __init__(self, described: Sequence[Any]) -> None:
        self._described = described

    def get_paginator(self, operation: str) -> "Describing":
        assert operation == "describe_instance_types"
        return self

    def paginate(self, **_: Any) -> Pages:
        return Pages([{"InstanceTypes": list(self._described)}])


def listed(*described: Any) -> list[str]:
    client: Any = Describing(described)
    reader = Ec2InstanceTypeReader(
        client, region="us-east-1", vm_memory_overhead=Fraction("0.075")
    )
    return [found.instance_type.name for found in reader.list_types()]


def test_parts_of_gpus_say_so_and_whole_ones_do_not() -> None:
    fractions = {
        name: described(name).requirements.labels().get(labels.GPU_FRACTION)
        for name in TABLE
    }
    assert {
        name: fraction for name, fraction in fractions.items() if fraction is not None
    } == {
        "g6f.large": "0.125",
        "g6f.4xlarge": "0.5",
        "gr6f.4xlarge": "0.5",
    }


def test_an_accelerator_of_an_unknown_maker_is_none_of_neuron() -> None:
    info = {
        "InstanceType": "x1.large",
        "InferenceAcceleratorInfo": {
            "Accelerators": [{"Manufacturer": "Acme", "Count": 4}]
        },
    }
    assert accelerators(info) == {}
