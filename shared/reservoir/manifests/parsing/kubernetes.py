"""What a cluster prints: lists of objects, and fields and annotations that mean something only there."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Location, Problem, Severity, path_of
from reservoir.manifests.parsing.variables import VARIABLE

_FREE_TEXT: Final = frozenset({"userData", "annotations"})
_LIKE_KARPENTERS: Final = ("NodePool", "EC2NodeClass")
_LIST_KINDS: Final = frozenset({"List", "NodePoolList", "EC2NodeClassList"})
# What every object of a cluster carries and none of Reservoir's does: its resourceVersion is the cluster's.
_OF_A_CLUSTER: Final = ("uid", "managedFields", "creationTimestamp", "selfLink")
# What the API server clears of an object without a namespace when it is made, or never looks at beside a name.
_CLEARED: Final = (
    "namespace",
    "generateName",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
# Annotations of kubectl and of Karpenter's own controllers.
_BOOKKEEPING: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.sh/stored-version-migrated",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
)
# Kinds that a folder of Karpenter's may hold beside the supported ones, by the group of their API version.
_INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    (
        "NodeOverlay",
        "karpenter.sh",
    ): "prices and capacity are what EC2 says of them: leave it out, give a NodePool a"
    " weight to prefer it, and ask `reservoir plan --price` what another price would change; of capacity that EC2 does"
    " not know (a device plugin's), ask for a label of the NodePool whose nodes have it instead of an amount",
    (
        "NodeClass",
        "eks.amazonaws.com",
    ): "EKS Auto Mode launches its own nodes. Make it an EC2NodeClass of"
    " karpenter.k8s.aws/v1: role, subnetSelectorTerms, securityGroupSelectorTerms, capacityReservationSelectorTerms and"
    " tags carry over, amiSelectorTerms must be added, and ephemeralStorage becomes blockDeviceMappings",
    (
        "HyperpodNodeClass",
        "karpenter.sagemaker.amazonaws.com",
    ): "SageMaker HyperPod launches its own nodes: write an EC2NodeClass of karpenter.k8s.aws/v1, and instance types"
    " without ml.",
    (
        "OpenshiftEC2NodeClass",
        "karpenter.hypershift.openshift.io",
    ): "OpenShift makes an EC2NodeClass of karpenter.k8s.aws/v1 of it: bring that one along",
    (
        "CapacityBuffer",
        "autoscaling.x-k8s.io",
    ): "room ahead of demand is kept in reserved units alone: give their NodePool warmReserved",
    (
        "NodeClaim",
        "karpenter.sh",
    ): "Reservoir makes its own claims for workloads: leave it out",
    (
        "Provisioner",
        "karpenter.sh",
    ): "it is of Karpenter before 0.32: convert it to a NodePool of karpenter.sh/v1 first",
    (
        "AWSNodeTemplate",
        "karpenter.k8s.aws",
    ): "it is of Karpenter before 0.32: convert it to an EC2NodeClass of"
    " karpenter.k8s.aws/v1 first",
}


def placeholders(document: Document, subject: str) -> Iterator[Problem]:
    """Yield each value with a variable that the file's author should have replaced, such as ``${CLUSTER_NAME}``.

    User data and annotations may hold variables of their own.
    """
    pending: list[tuple[Location, Any]] = [((), document.value)]
    while pending:
        location, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(
                ((*location, key), item)
                for key, item in value.items()
                if key not in _FREE_TEXT
            )
        elif isinstance(value, list):
            pending.extend(((*location, index), item) for index, item in enumerate(value))
        texts = (
            [key for key in value if isinstance(key, str)]
            if isinstance(value, Mapping)
            else [value]
        )
        for text in texts:
            found = VARIABLE.search(text) if isinstance(text, str) else None
            if found is not None:
                place = location if text is value else (*location, text)
                message = f"holds {found[0]}, a variable that nothing has replaced"
                line = document.line_of(place)
                yield Problem(
                    path_of(place),
                    "placeholder",
                    message,
                    line,
                    subject=subject,
                    source=document.source,
                )


def what_to_do_instead(value: Mapping[str, Any]) -> str | None:
    """Say what to do with a kind that is known in the field and not served here; None for every other."""
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return None
    return _INSTEAD.get((kind, version.partition("/")[0]))


def objects_in(document: Document) -> Iterator[Document]:
    """Yield the objects of a list, each with its own lines; any other document as it is."""
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if (
        not isinstance(kind, str)
        or kind not in _LIST_KINDS
        or not isinstance(value.get("items"), list)
    ):
        yield document
        return
    lines: list[dict[Location, int]] = [{} for _ in value["items"]]
    for location, line in document.lines.items():
        if len(location) > 1 and location[0] == "items" and isinstance(location[1], int):
            lines[location[1]][location[2:]] = line
    for index, item in enumerate(value["items"]):
        yield replace(document, value=item, lines=lines[index])


def without_bookkeeping(
    document: Document, subject: str
) -> tuple[Document, tuple[Problem, ...]]:
    """Return the document without what a cluster keeps for itself, and one note about it."""
    value = document.value
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return document, ()
    given = metadata.get("annotations")
    annotations = given if isinstance(given, dict) else {}
    dropped = [name for name in _BOOKKEEPING if name in annotations]
    if "resourceVersion" in metadata and any(
        metadata.get(name) is not None for name in _OF_A_CLUSTER
    ):
        dropped.append("resourceVersion")
    if value.get("kind") in _LIKE_KARPENTERS:
        dropped += [name for name in _CLEARED if name in metadata]
    if not dropped:
        return document, ()
    kept = {name: item for name, item in metadata.items() if name not in dropped}
    if isinstance(given, dict):
        kept["annotations"] = {
            name: item for name, item in annotations.items() if name not in dropped
        }
    told = [
        name for name in dropped if metadata.get(name, annotations.get(name)) is not None
    ]
    note = Problem(
        path_of(("metadata",)),
        "cluster-only",
        f"{', '.join(told)}: a Kubernetes cluster's own, without effect here",
        document.line_of(("metadata",)),
        severity=Severity.IGNORED,
        subject=subject,
        source=document.source,
    )
    return replace(document, value={**value, "metadata": kept}), (note,) if told else ()
