"""What comes out of a Karpenter cluster, and out of folders that were made for one."""

from typing import Any

import pytest
import yaml

from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import KINDS, Reading, read_files
from tests.manifests.kinds.valid import node_class, node_pool


def read(*documents: Any) -> Reading:
    return read_files([("f.yaml", yaml.safe_dump_all(documents))])


def rules(reading: Reading) -> list[str]:
    return [problem.rule for problem in reading.problems]


def live(manifest: dict[str, Any]) -> dict[str, Any]:
    """What ``kubectl get -o yaml`` prints of an object."""
    metadata = {
        **manifest["metadata"],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"apiVersion": "karpenter.sh/v1"}\n',
            "karpenter.sh/nodepool-hash": "1234",
            "team": "a",
        },
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karpenter.k8s.aws/termination"],
        "generation": 3,
        "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        "resourceVersion": "998877",
        "uid": "6f1f6f2e-0000-0000-0000-000000000000",
    }
    return {**manifest, "metadata": metadata, "status": {"conditions": []}}


def test_a_list_is_read_object_by_object_with_the_lines_of_each() -> None:
    wrong = node_pool()
    wrong["spec"]["wieght"] = 7
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [node_class(), wrong],
        "metadata": {"resourceVersion": ""},
    }
    text = yaml.safe_dump(listed)
    reading = read_files([("f.yaml", text)])
    (problem,) = [item for item in reading.problems if item.rule == "unknown-field"]
    assert problem.path == "spec.wieght"
    assert problem.line == 1 + text.splitlines().index("    wieght: 7")
    assert [item.identity[0] for item in reading.manifests] == ["EC2NodeClass"]


def test_a_live_object_is_understood_and_its_version_is_not_ours() -> None:
    reading = read(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [live(node_pool()), live(node_class())],
        }
    )
    assert {item.severity for item in reading.problems} == {Severity.IGNORED}
    notes = [item for item in reading.problems if item.rule == "cluster-only"]
    assert len(notes) == 2
    assert str(notes[0]).endswith(
        "metadata: kubectl.kubernetes.io/last-applied-configuration, karpenter.sh/nodepool-hash, resourceVersion:"
        " a Kubernetes cluster's own, without effect here [cluster-only]"
    )
    for item in reading.manifests:
        metadata: Any = item.manifest.metadata
        assert metadata.resource_version is None
        assert metadata.annotations == {"team": "a"}


def test_what_the_api_server_clears_is_said_to_mean_nothing() -> None:
    manifest = node_pool()
    manifest["metadata"] |= {
        "namespace": "karpenter",
        "generateName": "pool-",
        "deletionGracePeriodSeconds": None,
    }
    reading = read(manifest)
    assert [str(problem).partition("metadata: ")[2] for problem in reading.problems] == [
        "namespace, generateName: a Kubernetes cluster's own, without effect here [cluster-only]"
    ]
    assert [item.identity for item in reading.manifests] == [("NodePool", "pool")]


def with_nulls(value: Any, path: str = "") -> Any:
    """The manifest with a null for every optional field that can be left out, at any depth."""
    if isinstance(value, list):
        return [with_nulls(item, path) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {key: with_nulls(item, f"{path}.{key}") for key, item in value.items()}
    return {**dict.fromkeys(OPTIONAL.get(path, ())), **filled}


OPTIONAL = {
    ".metadata": ("labels", "annotations", "namespace"),
    ".metadata.labels": ("app",),
    ".metadata.annotations": ("note",),
    ".spec": ("limits", "disruption", "weight", "tags", "blockDeviceMappings", "metadataOptions", "userData", "kubelet",
              "detailedMonitoring", "placementGroupSelector", "associatePublicIPAddress", "replicas"),
    ".spec.limits": ("memory",),
    ".spec.tags": ("team",),
    ".spec.disruption": ("budgets", "consolidationPolicy", "consolidateAfter"),
    ".spec.disruption.budgets": ("nodes", "reasons", "schedule", "duration"),
    ".spec.template": ("metadata",),
    ".spec.template.metadata": ("labels", "annotations"),
    ".spec.template.metadata.labels": ("tier",),
    ".spec.template.spec": ("taints", "startupTaints", "expireAfter", "terminationGracePeriod"),
    ".spec.template.spec.taints": ("value", "timeAdded"),
    ".spec.template.spec.requirements": ("values", "minValues"),
    ".spec.blockDeviceMappings": ("rootVolume",),
    ".spec.blockDeviceMappings.ebs": ("iops", "throughput", "kmsKeyID", "volumeType", "deleteOnTermination"),
    ".spec.metadataOptions": ("httpEndpoint", "httpTokens", "httpPutResponseHopLimit", "httpProtocolIPv6"),
}  # fmt: skip


def without_fields(value: Any, fields: set[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: without_fields(item, fields)
            for key, item in value.items()
            if key not in fields
        }
    return (
        [without_fields(item, fields) for item in value]
        if isinstance(value, list)
        else value
    )


@pytest.mark.parametrize(
    "left_out", [set(), {"limits", "taints", "budgets", "metadataOptions", "labels"}]
)
def test_a_null_that_helm_left_behind_means_that_the_field_is_absent(
    left_out: set[str],
) -> None:
    for valid_manifest in (node_pool(), node_class()):
        manifest = without_fields(valid_manifest, left_out)
        known = KINDS[manifest["kind"]][1].wire_fields()["spec"].annotation
        assert known is not None
        nulls = with_nulls(manifest)
        nulls["spec"] = {
            key: item for key, item in nulls["spec"].items() if key in known.wire_fields()
        }
        (with_null,), (plain,) = read(nulls).manifests, read(manifest).manifests
        assert with_null.manifest.model_dump() == plain.manifest.model_dump()
        assert not [
            each for each in read(nulls).problems if each.severity is Severity.ERROR
        ]


def test_a_required_field_without_a_value_is_required_and_a_list_has_no_holes() -> None:
    manifest = node_class()
    manifest["spec"] |= {"amiSelectorTerms": None, "subnetSelectorTerms": [None]}
    told = {(problem.path, problem.message) for problem in read(manifest).problems}
    assert ("spec.amiSelectorTerms", "is required") in told
    assert ("spec.subnetSelectorTerms[0]", "has no value") in told


def test_the_version_that_reservoir_printed_counts() -> None:
    printed = node_pool()
    printed["metadata"] |= {"generation": 2, "resourceVersion": "17"}
    (item,) = read(printed).manifests
    metadata: Any = item.manifest.metadata
    assert metadata.resource_version == "17"


@pytest.mark.parametrize(
    ("kind", "version", "told"),
    [
        (
            "NodeOverlay",
            "karpenter.sh/v1alpha1",
            "NodeOverlay is not served: prices and capacity are what EC2 says",
        ),
        (
            "NodeClass",
            "eks.amazonaws.com/v1",
            "Make it an EC2NodeClass of karpenter.k8s.aws/v1",
        ),
        (
            "HyperpodNodeClass",
            "karpenter.sagemaker.amazonaws.com/v1",
            "write an EC2NodeClass of karpenter.k8s.aws/v1",
        ),
        (
            "OpenshiftEC2NodeClass",
            "karpenter.hypershift.openshift.io/v1beta1",
            "OpenShift makes an EC2NodeClass",
        ),
        (
            "CapacityBuffer",
            "autoscaling.x-k8s.io/v1alpha1",
            "give their NodePool warmReserved",
        ),
        ("NodeClaim", "karpenter.sh/v1", "leave it out"),
        ("Provisioner", "karpenter.sh/v1alpha5", "convert it to a NodePool"),
    ],
)
def test_what_is_not_served_says_what_to_do(kind: str, version: str, told: str) -> None:
    reading = read(
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "a"},
            "spec": {"anything": 1},
        }
    )
    assert rules(reading) == ["not-served"]
    assert told in reading.problems[0].message


def test_a_wrong_kind_and_version_hide_nothing() -> None:
    wrong = {**node_pool(), "apiVersion": "karpenter.sh/v1beta1", "kind": "Nodepool"}
    wrong["spec"]["wieght"] = 7
    assert rules(read(wrong)) == ["kind", "apiVersion", "unknown-field"]


def test_what_is_wrong_with_the_form_hides_nothing() -> None:
    text = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: P}
spec:
  weight: 7
  weight: 8
  limits: &limits {cpu: 10}
  <<: *limits
  template: {spec: {nodeClassRef: {name: c}, requirements: !Ref [], expireAfter: 30d}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: Q}
spec: {template: {spec: {nodeClassRef: {name: c}, requirements: []}}
"""
    told = [
        (problem.rule, problem.line) for problem in read_files([("f.yaml", text)]).problems
    ]
    assert told == [
        ("duplicate", 7),
        ("merge-key", 9),
        ("tag", 10),
        ("yaml", 16),
        ("name", 4),
        ("duration", 10),
    ]


def test_documents_before_one_that_is_no_yaml_are_looked_at() -> None:
    good = yaml.safe_dump(node_pool())
    reading = read_files([("f.yaml", f"{good}---\n{{a: [\n")])
    assert [item.identity[0] for item in reading.manifests] == ["NodePool"]
    assert rules(reading) == ["yaml"]


def test_a_thousand_equal_mistakes_are_told_a_hundred_times() -> None:
    text = "a: 1\n" * 1000
    assert rules(read_files([("f.yaml", text)])).count("duplicate") == 101


def test_a_variable_that_nothing_has_replaced() -> None:
    wrong = node_class()
    wrong["spec"] |= {
        "role": "KarpenterNodeRole-${CLUSTER_NAME}",
        "userData": "echo ${HOME}",
    }
    wrong["spec"]["subnetSelectorTerms"] = [
        {"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}
    ]
    told = [(problem.path, problem.message) for problem in read(wrong).problems]
    assert told == [
        ("spec.role", "holds ${CLUSTER_NAME}, a variable that nothing has replaced"),
        (
            "spec.subnetSelectorTerms[0].tags['karpenter.sh/discovery']",
            "holds ${CLUSTER_NAME}, a variable that nothing has replaced",
        ),
    ]


def test_a_number_is_no_duration() -> None:
    wrong = node_pool()
    wrong["spec"]["template"]["spec"]["expireAfter"] = 10
    (problem,) = read(wrong).problems
    assert str(problem).endswith(
        "expireAfter: must be a duration with its unit, such as 10s or 10m [duration]"
    )


@pytest.mark.parametrize("kind", ["[List]", "{List: 1}", "7", "null"])
def test_a_kind_that_is_no_text_is_no_list_and_no_crash(kind: str) -> None:
    reading = read_files([("odd.yaml", f"apiVersion: v1\nkind: {kind}\nitems: []\n")])
    assert [problem.rule for problem in reading.problems] == ["kind"]


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("role-${CLUSTER}", "${CLUSTER}"),
        ("${var.cluster}", "${var.cluster}"),
        ("${CLUSTER:-shop}", "${CLUSTER:-shop}"),
        ("$CLUSTER", "$CLUSTER"),
        ("$(CLUSTER)", "$(CLUSTER)"),
        ("<<CLUSTER_NAME>>", "<<CLUSTER_NAME>>"),
        ("<cluster-name>", "<cluster-name>"),
        ("{{ .Values.cluster }}", "{{ .Values.cluster }}"),
        ("__CLUSTER__", "__CLUSTER__"),
        ("${{ vars.CLUSTER }}", "${{ vars.CLUSTER }}"),
        ("{% include cluster %}", "{% include cluster %}"),
        ("role-{cluster}", "{cluster}"),
        ("[[ cluster ]]", "[[ cluster ]]"),
        ("<%= cluster %>", "<%= cluster %>"),
        ("#{Cluster.Name}", "#{Cluster.Name}"),
        ("#{cluster}#", "#{cluster}#"),
        ("%CLUSTER%", "%CLUSTER%"),
        ("@CLUSTER@", "@CLUSTER@"),
        ("@@CLUSTER@@", "@@CLUSTER@@"),
        ("YOUR_CLUSTER", "YOUR_CLUSTER"),
        ("role-REPLACE_ME", "REPLACE_ME"),
        ("subnet-xxxxxxxx", "subnet-xxxxxxxx"),
        ("((cluster))", "((cluster))"),
        ("##Cluster##", "##Cluster##"),
        ("@@cluster@@", "@@cluster@@"),
        ("$[variables.cluster]", "$[variables.cluster]"),
        ("[CLUSTER_NAME]", "[CLUSTER_NAME]"),
        ("your-cluster-name", "your-cluster-name"),
        ("role-change-me", "change-me"),
        ("xxxxx", "xxxxx"),
        ("your_cluster", "your_cluster"),
        ("YOUR-CLUSTER", "YOUR-CLUSTER"),
        ("CHANGEME", "CHANGEME"),
        ("INSERT_CLUSTER_NAME", "INSERT_CLUSTER_NAME"),
        ("CLUSTER_NAME_PLACEHOLDER", "CLUSTER_NAME_PLACEHOLDER"),
        ("[[ .Cluster ]]", "[[ .Cluster ]]"),
        ("$(terraform output -raw name)", "$(terraform output -raw name)"),
        ("%{ if var.name }", "%{ if var.name }"),
        ("%(cluster)s", "%(cluster)s"),
        ("<path:secret/data/eks#cluster>", "<path:secret/data/eks#cluster>"),
        ("ref+awsssm://eks/cluster", "ref+awsssm://eks/cluster"),
        ("op://vault/eks/cluster", "op://vault/eks/cluster"),
        ("vault:secret/data/eks#cluster", "vault:secret/data/eks#cluster"),
        ("ENC[AES256_GCM,data:aGk=,type:str]", "ENC[AES256_GCM,data:aGk=,type:str]"),
        (f"{{{{ .Values.{'a' * 90} }}}}", f"{{{{ .Values.{'a' * 90} }}}}"),
    ],
)
def test_what_nothing_has_replaced_is_found_wherever_it_is(
    text: str, variable: str
) -> None:
    for field in ("role", "instanceProfile"):
        manifest = node_class()
        manifest["spec"] = {
            key: item for key, item in manifest["spec"].items() if key != "role"
        } | {field: text}
        assert told_of(manifest) == {
            (f"spec.{field}", f"holds {variable}, a variable that nothing has replaced")
        }
    manifest = node_class()
    manifest["spec"]["tags"] = {"cluster": text}
    manifest["spec"]["subnetSelectorTerms"] = [{"tags": {"karpenter.sh/discovery": text}}]
    assert {path for path, _ in told_of(manifest)} == {
        "spec.tags.cluster",
        "spec.subnetSelectorTerms[0].tags['karpenter.sh/discovery']",
    }
    manifest = node_class()
    manifest["spec"]["subnetSelectorTerms"] = [
        {"tags": {f"kubernetes.io/cluster/{text}": "owned"}}
    ]
    assert len(told_of(manifest)) == 1


def told_of(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (each.path, each.message)
        for each in read(manifest).problems
        if each.severity is Severity.ERROR
    }


def test_ordinary_signs_are_no_variables() -> None:
    manifest = node_class()
    manifest["spec"]["tags"] = {
        "price": "5 $",
        "note": "a < b > c",
        "path": "__init__",
        "share": "50%",
        "mail": "ops@EXAMPLE.com",
        "set": "{1, 2}",
        "list": "[a, b]",
        "box": "Xbox-xxl",
        "owner": "CHANGE_MEETING",
    }
    assert told_of(manifest) == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "metadata:\n  name: {{ .Values.name }}\n",
            [(2, "holds {{ .Values.name }}, which nothing has replaced: render the template first")],
        ),
        (
            "spec:\n{{- if .Values.limits }}\n  limits: {}\n{{- end }}\n",
            [
                (2, "holds {{- if .Values.limits }}, which nothing has replaced: render the template first"),
                (4, "holds {{- end }}, which nothing has replaced: render the template first"),
            ],
        ),
        (
            "spec:\n  role: %ROLE%\n",
            [(2, "holds %ROLE%, which nothing has replaced: render the template first")],
        ),
        (
            "spec:\n%{ for key in keys ~}\n  ${key}: a\n%{ endfor ~}\n",
            [
                (2, "holds %{ for key in keys ~}, which nothing has replaced: render the template first"),
                (4, "holds %{ endfor ~}, which nothing has replaced: render the template first"),
            ],
        ),
        (
            "#@ load('@ytt:data', 'data')\nmetadata:\n  name: #@ data.values.name\n",
            [
                (1, "holds #@ load('@ytt:data', 'data'), which nothing has replaced: render the template first"),
                (3, "holds #@ data.values.name, which nothing has replaced: render the template first"),
            ],
        ),
        ("spec: [\n", [(2, "is not YAML: did not find expected node content")]),
        ("spec: {[a]: b}\n", [(1, "a list or mapping cannot be a key")]),
    ],
)  # fmt: skip
def test_a_template_that_is_no_yaml_is_named_as_one(
    text: str, told: list[tuple[int, str]]
) -> None:
    problems = read_files([("f.yaml", text)]).problems
    assert [(problem.line, problem.message) for problem in problems] == told


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]},
        {"key": "beta.kubernetes.io/os", "operator": "NotIn", "values": ["linux"]},
        {"key": "node.kubernetes.io/windows-build", "operator": "Exists"},
        {"key": "node.kubernetes.io/windows-build", "operator": "In", "values": ["10.0.20348"]},
    ],
)  # fmt: skip
def test_a_pool_that_leaves_nothing_but_windows_is_refused(
    requirement: dict[str, Any],
) -> None:
    manifest = node_pool()
    manifest["spec"]["template"]["spec"]["requirements"] = [requirement]
    ((_, message),) = told_of(manifest)
    assert message.startswith("Windows is not served")


@pytest.mark.parametrize(
    ("kubelet", "is_told"),
    [
        ({"maxPods": 20, "systemReserved": {"cpu": "1", "memory": "1Gi"}}, False),
        ({"evictionHard": {"memory.available": "5%"}}, False),
        ({"clusterDNS": None}, False),
        ({"clusterDNS": ["10.0.0.1"]}, True),
        ({"systemReserved": {"cpu": "1", "ephemeral-storage": "1Gi"}}, True),
        ({"evictionHard": {"memory.available": "5%", "nodefs.available": "5%"}}, True),
    ],
)
def test_what_of_kubelet_does_not_count_is_said(
    kubelet: dict[str, Any], is_told: bool
) -> None:
    manifest = node_class()
    manifest["spec"]["kubelet"] = kubelet
    notes = [each for each in read(manifest).problems if each.path == "spec.kubelet"]
    assert len(notes) == is_told


def test_labels_of_auto_mode_mean_karpenters_or_are_refused() -> None:
    def pool(*keys: str) -> dict[str, Any]:
        manifest = node_pool()
        requirements = [{"key": key, "operator": "In", "values": ["r"]} for key in keys]
        manifest["spec"]["template"]["spec"]["requirements"] = requirements
        return manifest

    (item,) = read(pool("eks.amazonaws.com/instance-category")).manifests
    written = item.manifest.model_dump(mode="json", by_alias=True)["spec"]["template"][
        "spec"
    ]["requirements"]
    assert [each["key"] for each in written] == ["karpenter.k8s.aws/instance-category"]
    assert told_of(pool("eks.amazonaws.com/compute-type")) == {
        (
            "spec.template.spec.requirements[0].key",
            "is a label of EKS Auto Mode without a counterpart here: no node has it",
        )
    }


def test_a_pool_requires_no_other_name_and_taints_nothing_twice() -> None:
    manifest = node_pool()
    template = manifest["spec"]["template"]["spec"]
    template["requirements"] = [
        {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["other"]}
    ]
    template["startupTaints"] = [{**template["taints"][0], "value": "other"}]
    assert told_of(manifest) == {
        ("spec.template.spec.requirements[0].key", "is set to the pool's own name"),
        (
            "spec.template.spec.startupTaints",
            "has two taints of key 'nvidia.com/gpu' and effect 'NoSchedule'",
        ),
    }
