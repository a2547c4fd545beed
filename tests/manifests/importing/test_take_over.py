"""What other systems call their capacity, as manifests."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from reservoir.manifests.answers.render import to_yaml
from reservoir.manifests.importing.take_over import Imported, take_over
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files
from tests.manifests.kinds import valid

EXAMPLES: Final = Path(__file__).with_name("examples")
# These are read beside others, and are nothing by themselves.
BESIDE: Final = {"launch-templates.json", "sky-config.yaml"}
ALONE: Final = sorted(path.name for path in EXAMPLES.iterdir() if path.name not in BESIDE)


def imported(*names: str) -> Imported:
    return take_over([(name, (EXAMPLES / name).read_bytes()) for name in names])


def spec(found: Imported, kind: str, name: str) -> dict[str, Any]:
    (manifest,) = [
        each
        for each in found.manifests
        if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    content: dict[str, Any] = manifest["spec"]
    return content


def requirements(found: Imported, pool: str) -> dict[str, list[str]]:
    template = spec(found, "NodePool", pool)["template"]["spec"]
    return {each["key"]: each["values"] for each in template["requirements"]}


def notes(found: Imported) -> list[str]:
    return [str(problem) for problem in found.problems]


def says(found: Imported, start: str, text: str) -> bool:
    return any(note.startswith(start) and text in note for note in notes(found))


@pytest.mark.parametrize("name", ALONE)
def test_what_is_imported_is_valid(name: str) -> None:
    found = imported(name)
    assert errors_of(found.problems) == ()
    reading = read_files([("imported", to_yaml(found.manifests))])
    assert [str(each) for each in errors_of(reading.problems)] == []
    assert len(reading.manifests) == len(found.manifests) > 0


def test_reservations_and_segments_of_a_group_come_along() -> None:
    found = imported("auto-scaling.json", "launch-templates.json")
    assert requirements(found, "trainers") == {
        "karpenter.sh/capacity-type": ["reserved"],
        "node.kubernetes.io/instance-type": ["p5.48xlarge", "p5en.48xlarge"],
    }
    group = "arn:aws:resource-groups:us-east-1:123456789012:group/blocks"
    node_class = spec(found, "EC2NodeClass", "trainers")
    assert node_class["capacityReservationSelectorTerms"] == [
        {"reservationGroupARN": group}
    ]
    assert spec(found, "NodePool", "trainers")["limits"] == {"nodes": "8"}


def test_a_launch_template_in_the_input_says_what_the_group_does_not() -> None:
    found = imported("auto-scaling.json", "launch-templates.json")
    node_class = spec(found, "EC2NodeClass", "trainers")
    assert node_class["amiSelectorTerms"] == [{"id": "ami-0123456789abcdef0"}]
    assert node_class["securityGroupSelectorTerms"] == [{"id": "sg-0aa11bb22cc33dd44"}]
    assert node_class["instanceProfile"] == "trainer"
    assert node_class["tags"] == {"kind": "trainer", "team": "research"}
    (disk,) = node_class["blockDeviceMappings"]
    assert (disk["deviceName"], disk["ebs"]["volumeSize"]) == ("/dev/sda1", "200Gi")


def test_a_launch_template_that_is_not_there_is_asked_for_with_its_line() -> None:
    found = imported("auto-scaling.json")
    assert says(found, "auto-scaling.json:6: warning:", "describe-launch-template-versions")


def test_instance_requirements_are_requirements_on_labels() -> None:
    found = imported("instance-requirements.json")
    bounds = spec(found, "NodePool", "by-attributes")["template"]["spec"]["requirements"]
    cpu = [each for each in bounds if each["key"] == "karpenter.k8s.aws/instance-cpu"]
    assert [(each["operator"], each["values"]) for each in cpu] == [
        ("Gt", ["3"]),
        ("Lt", ["17"]),
    ]
    named = requirements(found, "by-attributes-families")
    assert named["karpenter.k8s.aws/instance-family"] == ["m6i"]
    assert named["karpenter.sh/capacity-type"] == ["spot", "on-demand"]


def test_environments_of_batch_keep_types_families_and_their_most_processors() -> None:
    found = imported("batch.json")
    types = requirements(found, "c5-ondemand")["node.kubernetes.io/instance-type"]
    families = requirements(found, "c5-ondemand-families")
    assert types == ["c5.4xlarge"]
    assert families["karpenter.k8s.aws/instance-family"] == ["r7i"]
    assert spec(found, "NodePool", "c5-ondemand")["limits"] == {"cpu": "256"}
    assert (
        spec(found, "EC2NodeClass", "c5-ondemand")["instanceProfile"] == "ecsInstanceRole"
    )
    assert requirements(found, "spot")["karpenter.sh/capacity-type"] == ["spot"]


def test_a_placeholder_for_a_profile_is_left_out_and_said() -> None:
    # as in https://docs.aws.amazon.com/batch/latest/userguide/getting-started-eks.html
    environment = {
        "computeEnvironmentName": "on-eks",
        "computeResources": {
            "type": "EC2",
            "instanceTypes": ["m5"],
            "instanceRole": "<eks-instance-profile>",
        },
    }
    found = take_over([("eks.json", json.dumps(environment))])
    node_class = spec(found, "EC2NodeClass", "on-eks")
    assert "instanceProfile" not in node_class
    assert node_class["role"] == "reservoir-node"
    assert says(found, "eks.json:1: warning:", "is no name that IAM knows and is left out")
    reading = read_files([("imported", to_yaml(found.manifests))])
    assert errors_of(reading.problems) == ()


def test_two_templates_of_cloud_formation_keep_their_launch_templates_apart() -> None:
    def template(instance_type: str) -> str:
        group = {"LaunchTemplate": {"LaunchTemplateId": {"Ref": "Launch"}, "Version": "1"}}
        data = {"InstanceType": instance_type}
        resources = {
            "Launch": {
                "Type": "AWS::EC2::LaunchTemplate",
                "Properties": {"LaunchTemplateData": data},
            },
            f"Of{instance_type[0]}": {
                "Type": "AWS::AutoScaling::AutoScalingGroup",
                "Properties": group,
            },
        }
        return json.dumps({"Resources": resources})

    found = take_over(
        [("a.json", template("m7i.large")), ("b.json", template("c7i.large"))]
    )
    types = {
        name: requirements(found, name)["node.kubernetes.io/instance-type"]
        for name in ("ofm", "ofc")
    }
    assert types == {"ofm": ["m7i.large"], "ofc": ["c7i.large"]}


def test_a_launch_template_of_cloud_formation_is_found_by_its_own_name_too() -> None:
    resources = {
        "Launch": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateName": "workers",
                "LaunchTemplateData": {"InstanceType": "m7i.large"},
            },
        },
        "Group": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {"LaunchTemplate": {"LaunchTemplateName": "workers"}},
        },
    }
    found = take_over([("a.json", json.dumps({"Resources": resources}))])
    assert requirements(found, "group")["node.kubernetes.io/instance-type"] == ["m7i.large"]


def test_an_environment_without_instances_is_named_and_left_out() -> None:
    found = imported("batch.json")
    assert says(found, "batch.json:17: warning:", "has no instances")
    assert all(each["metadata"]["name"] != "serverless" for each in found.manifests)


def test_parameters_of_cloud_formation_have_their_defaults_and_the_rest_is_named() -> None:
    found = imported("cloud-formation.yaml")
    assert requirements(found, "environment")["node.kubernetes.io/instance-type"] == [
        "p5.48xlarge"
    ]
    parameter = "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
    node_class = spec(found, "EC2NodeClass", "environment")
    assert node_class["amiSelectorTerms"] == [{"ssmParameter": parameter}]
    assert says(found, "cloud-formation.yaml:37: warning:", "InstanceRole")


def test_capacity_that_must_be_reserved_is_never_bought_instead() -> None:
    found = imported("cloud-formation.yaml")
    assert requirements(found, "environment")["karpenter.sh/capacity-type"] == ["reserved"]
    assert says(found, "cloud-formation.yaml:31: warning:", "names no reservation")


def test_node_groups_of_eksctl_keep_network_taints_and_blocks() -> None:
    found = imported("eksctl.yaml")
    blocks = spec(found, "EC2NodeClass", "gpu-blocks")
    assert blocks["subnetSelectorTerms"] == [{"id": "subnet-0aa11bb22cc33dd44"}]
    assert blocks["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]
    assert requirements(found, "gpu-blocks")["karpenter.sh/capacity-type"] == ["reserved"]
    template = spec(found, "NodePool", "science")["template"]["spec"]
    assert template["taints"] == [
        {"key": "special", "value": "true", "effect": "NoSchedule"}
    ]
    zones = requirements(found, "science")["topology.kubernetes.io/zone"]
    assert zones == ["eu-central-1b"]


def test_a_node_group_as_eks_describes_it() -> None:
    found = imported("nodegroup.json")
    pool = spec(found, "NodePool", "workers")
    assert pool["template"]["metadata"]["labels"] == {"tier": "web"}
    assert requirements(found, "workers")["kubernetes.io/arch"] == ["arm64"]
    node_class = spec(found, "EC2NodeClass", "workers")
    assert node_class["role"] == "NodeRole"
    assert node_class["tags"] == {"cost": "web"}


def test_each_compute_resource_of_a_parallel_cluster_is_a_pool() -> None:
    found = imported("parallel-cluster.yaml")
    pools = [it["metadata"]["name"] for it in found.manifests if it["kind"] == "NodePool"]
    assert pools == ["blocks", "wide-one", "wide-two", "cheap"]
    assert requirements(found, "blocks")["karpenter.sh/capacity-type"] == ["reserved"]
    blocks = spec(found, "EC2NodeClass", "blocks")
    assert blocks["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]
    assert says(found, "parallel-cluster.yaml:9: ignored:", "SlurmSettings")


def test_what_only_stands_for_an_id_is_left_out_and_named() -> None:
    found = imported("parallel-cluster.yaml")
    assert any("'PLACEHOLDER_SUBNET' is no id" in note for note in notes(found))
    subnets = spec(found, "EC2NodeClass", "wide-one")["subnetSelectorTerms"]
    assert subnets == [{"tags": {"reservoir": "true"}}]


def test_a_task_of_sky_pilot_is_a_gang_with_its_pool_and_the_configured_reservations() -> (
    None
):
    found = imported("sky-task.yaml", "sky-config.yaml")
    workload = spec(found, "Workload", "fine-tune")
    assert workload == {
        "replicas": 2,
        "gang": True,
        "resources": {
            "requests": {"cpu": "90", "memory": "800Gi", "nvidia.com/gpu": 8},
        },
    }
    families = requirements(found, "fine-tune")["karpenter.k8s.aws/instance-family"]
    assert families == ["p5"]
    terms = spec(found, "EC2NodeClass", "fine-tune")["capacityReservationSelectorTerms"]
    assert terms == [{"id": "cr-0123456789abcdef0"}]
    assert any("A100-80GB is an alternative" in note for note in notes(found))


def test_alternatives_of_other_clouds_are_named() -> None:
    found = imported("sky-any-of.yaml")
    assert says(found, "sky-any-of.yaml:4: warning:", "gcp has no counterpart")
    bought = requirements(found, "task")["karpenter.sh/capacity-type"]
    assert bought == ["spot", "on-demand"]


def test_karpenter_keeps_its_manifests_and_variables_are_named() -> None:
    found = imported("karpenter.yaml")
    node_class = spec(found, "EC2NodeClass", "shared")
    assert node_class["role"] == "NodesOf-CLUSTER"
    assert says(found, "karpenter.yaml:19: warning:", "CLUSTER stands there")
    assert says(found, "karpenter.yaml:26: ignored:", "Deployment is not imported")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("${CLUSTER}", "CLUSTER"),
        ("__CLUSTER__", "CLUSTER"),
        ("{{ .Values.cluster }}", ".Values.cluster"),
        ("@@CLUSTER@@", "CLUSTER"),
        ("YOUR_CLUSTER", "your.cluster"),
        ("role-change-me", "role-change.me"),
        ("<path:secret/data/eks#cluster>", "pathsecretdataekscluster"),
        ("sg-xxxxxxxx", "sg-00000000"),
    ],
)
def test_the_name_of_a_variable_is_none_any_more(variable: str, name: str) -> None:
    manifest = valid.node_class()
    manifest["spec"]["tags"] = {"cluster": variable}
    found = take_over([("karpenter.yaml", json.dumps(manifest).encode())])
    (written,) = found.manifests
    assert written["spec"]["tags"] == {"cluster": name}
    assert valid.errors(dict(written)) == set()


def test_karpenters_beta_is_rewritten() -> None:
    found = imported("karpenter-beta.yaml")
    pool = spec(found, "NodePool", "old")
    assert pool["template"]["spec"]["expireAfter"] == "240h"
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    images = spec(found, "EC2NodeClass", "old")["amiSelectorTerms"]
    assert images == [{"alias": "bottlerocket@latest"}]


def test_every_field_that_nobody_reads_is_named() -> None:
    group = {"AutoScalingGroupName": "g", "MinSize": 1, "MaxSize": 2, "Unheard": {"of": 1}}
    found = take_over([("group.json", json.dumps(group))])
    assert any(" Unheard: has no counterpart here" in note for note in notes(found))


def test_two_of_one_name_get_names_of_their_own() -> None:
    found = imported("nodegroup.json", "nodegroup.json")
    names = [(each["kind"], each["metadata"]["name"]) for each in found.manifests]
    assert names == [
        ("NodePool", "workers"),
        ("EC2NodeClass", "workers"),
        ("NodePool", "workers-2"),
        ("EC2NodeClass", "workers-2"),
    ]
    second = spec(found, "NodePool", "workers-2")["template"]["spec"]
    assert second["nodeClassRef"]["name"] == "workers-2"


@pytest.mark.parametrize(
    "text", ["[1, 2]", "{a: 1}", "just text", "kind: x", "Resources: {A: {Type: 3}}"]
)
def test_what_is_of_no_known_form_is_an_error(text: str) -> None:
    found = take_over([("odd.yaml", text)])
    assert found.manifests == []
    assert errors_of(found.problems) != ()
