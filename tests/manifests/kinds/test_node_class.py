from typing import Any

import pytest

from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    FleetTargetingMode,
    NodeClass,
    OpenReservationPreference,
    SelectorTerm,
)
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.parsing.fields import STORED
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import read_document
from tests.manifests.kinds import valid

ARN = "arn:aws:resource-groups:us-west-2:123456789012:group/training"
TERMS = "spec.capacityReservationSelectorTerms"


def with_spec(**fields: Any) -> dict[str, Any]:
    return valid.with_spec(valid.node_class(), **fields)


def test_every_field_arrives_in_the_core() -> None:
    core = NodeClassManifest.model_validate(valid.node_class()).to_core()
    assert core.capacity_reservation_selector_terms == (
        CapacityReservationSelectorTerm(id="cr-12345749"),
        CapacityReservationSelectorTerm(
            owner_id="123456789012",
            tags={"purpose": "*"},
            instance_match_criteria="targeted",
        ),
        CapacityReservationSelectorTerm(reservation_group_arn=ARN),
    )
    assert core.subnet_selector_terms == (
        SelectorTerm(id="subnet-1"),
        SelectorTerm(tags={"network": "private"}),
    )
    assert core.security_group_selector_terms[1] == SelectorTerm(name="nodes")
    assert core.ami_selector_terms[1:3] == (
        SelectorTerm(name="app-*", owner="self"),
        SelectorTerm(ssm_parameter="/images/app"),
    )
    assert core.open_reservation_preference is OpenReservationPreference.OPEN
    assert core.fleet_targeting_mode is FleetTargetingMode.RESERVED_CAPACITY
    assert core.block_device_mappings == (
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"Encrypted": True, "Iops": 3000, "VolumeSize": 20, "VolumeType": "gp3"},
        },
    )
    assert core.metadata_options == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 2,
        "HttpTokens": "required",
    }
    assert (core.role, core.placement_group, core.tags) == (
        "node",
        "together",
        {"cost-center": "42"},
    )
    assert (core.detailed_monitoring, core.associate_public_ip_address) == (True, False)


def test_what_has_no_meaning_here_is_named_line_by_line() -> None:
    _, problems = read_document(Document(valid.node_class()))
    assert {(problem.path, problem.severity) for problem in problems} == {
        ("spec.kubelet", Severity.IGNORED),
    }


@pytest.mark.parametrize(
    "terms",
    [
        None,
        [],
        [{"tags": {"a": "b"}}],
        [{"id": "cr-12345749"}],
        [{"ownerID": "012345678901", "tags": {"test": "testvalue"}}],
        [{"instanceMatchCriteria": "open"}],
        [{"instanceMatchCriteria": "targeted"}],
        [{"instanceMatchCriteria": "open", "tags": {"a": "b"}}],
        [
            {
                "instanceMatchCriteria": "targeted",
                "ownerID": "012345678901",
                "tags": {"a": "*"},
            }
        ],
        [{"reservationGroupARN": ARN, "ownerID": "012345678901"}],
    ],
)
def test_reservation_terms_that_are_accepted(terms: Any) -> None:  # S-41
    assert valid.errors(with_spec(capacityReservationSelectorTerms=terms)) == set()


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ([{}], (f"{TERMS}[0]", "selector-term")),
        ([{"ownerID": "012345678901"}], (f"{TERMS}[0]", "selector-term")),
        ([{"tags": {}}], (f"{TERMS}[0].tags", "too-short")),
        ([{"tags": {"": "b"}}], (f"{TERMS}[0].tags['']", "tag")),
        ([{"tags": {"a": ""}}], (f"{TERMS}[0].tags.a", "tag")),
        ([{"tags": {str(n): "x" for n in range(21)}}], (f"{TERMS}[0].tags", "too-long")),
        ([{"id": "cr-12345749", "tags": {"a": "b"}}], (f"{TERMS}[0].id", "selector-term")),
        # one good term does not excuse a bad one
        (
            [{"id": "cr-1"}, {"id": "cr-2", "ownerID": "012345678901"}],
            (f"{TERMS}[1].id", "selector-term"),
        ),
        (
            [{"id": "cr-1", "instanceMatchCriteria": "open"}],
            (f"{TERMS}[0].id", "selector-term"),
        ),
        ([{"id": "cr-1", "reservationGroupARN": ARN}], (f"{TERMS}[0].id", "selector-term")),
        ([{"id": "ocr-1"}], (f"{TERMS}[0].id", "id")),
        ([{"id": "cr-1\n"}], (f"{TERMS}[0].id", "id")),
        ([{"tags": {"a": "b"}, "ownerID": "1234"}], (f"{TERMS}[0].ownerID", "account-id")),
        (
            [{"instanceMatchCriteria": "Open"}],
            (f"{TERMS}[0].instanceMatchCriteria", "literal-error"),
        ),
        (
            [{"reservationGroupARN": "arn:aws:ec2:x"}],
            (f"{TERMS}[0].reservationGroupARN", "arn"),
        ),
        ([{"id": f"cr-{n}"} for n in range(31)], (TERMS, "too-long")),
    ],
)
#
def test_reservation_terms_that_are_refused(terms: Any, problem: tuple[str, str]) -> None:
    assert problem in valid.errors(with_spec(capacityReservationSelectorTerms=terms))


@pytest.mark.parametrize(
    ("spec", "terms", "preference"),
    [
        ({"capacityReservationPreference": "open"}, (), OpenReservationPreference.OPEN),
        ({"capacityReservationPreference": "none"}, (), OpenReservationPreference.NONE),
        ({}, (), OpenReservationPreference.NONE),
        (
            {"capacityReservationTarget": {"capacityReservationId": "cr-1"}},
            (CapacityReservationSelectorTerm(id="cr-1"),),
            OpenReservationPreference.NONE,
        ),
        (
            {"capacityReservationTarget": {"capacityReservationResourceGroupArn": ARN}},
            (CapacityReservationSelectorTerm(reservation_group_arn=ARN),),
            OpenReservationPreference.NONE,
        ),
    ],
)
def test_the_first_rfcs_capacity_reservation_spec(
    spec: Any, terms: Any, preference: Any
) -> None:
    manifest = with_spec(
        capacityReservationSpec=spec,
        capacityReservationSelectorTerms=None,
        openReservationPreference=None,
    )
    core = NodeClassManifest.model_validate(manifest).to_core()
    assert core.capacity_reservation_selector_terms == terms
    assert core.open_reservation_preference is preference


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {
                "capacityReservationSpec": {
                    "capacityReservationPreference": "open",
                    "capacityReservationTarget": {"capacityReservationId": "cr-1"},
                }
            },
            "spec.capacityReservationSpec.capacityReservationPreference",
        ),
        (
            {"capacityReservationSpec": {"capacityReservationTarget": {}}},
            "spec.capacityReservationSpec.capacityReservationTarget",
        ),
        (
            {
                "capacityReservationSpec": {
                    "capacityReservationTarget": {
                        "capacityReservationId": "cr-1",
                        "capacityReservationResourceGroupArn": ARN,
                    }
                }
            },
            "spec.capacityReservationSpec.capacityReservationTarget",
        ),
        (
            {"capacityReservationSpec": {"capacityReservationPreference": "none"}},
            "spec.capacityReservationSpec",
        ),
    ],
)
def test_the_first_rfcs_exclusions(fields: dict[str, Any], path: str) -> None:
    assert (path, "capacity-reservation-spec") in valid.errors(with_spec(**fields))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"subnetSelectorTerms": None}, ("spec.subnetSelectorTerms", "missing")),
        ({"subnetSelectorTerms": []}, ("spec.subnetSelectorTerms", "too-short")),
        (
            {"subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}]},
            ("spec.subnetSelectorTerms[0].id", "selector-term"),
        ),
        (
            {"securityGroupSelectorTerms": [{"name": "x", "id": "sg-1"}]},
            ("spec.securityGroupSelectorTerms[0].name", "selector-term"),
        ),
        (
            {"amiSelectorTerms": [{"alias": "ubuntu@latest"}]},
            ("spec.amiSelectorTerms[0].alias", "alias"),
        ),
        (
            {"amiSelectorTerms": [{"alias": "al2023@latest"}, {"id": "ami-1"}]},
            ("spec.amiSelectorTerms", "selector-term"),
        ),
        (
            {"amiSelectorTerms": [{"owner": "self"}]},
            ("spec.amiSelectorTerms[0]", "selector-term"),
        ),
        ({"instanceProfile": "p"}, ("spec.instanceProfile", "role")),
        ({"role": "arn:aws:iam::1:role/x"}, ("spec.role", "iam-name")),
        (
            {"role": "arn:aws:iam::123456789012:instance-profile/x"},
            ("spec.role", "iam-name"),
        ),
        ({"role": "a b"}, ("spec.role", "iam-name")),
        (
            {"role": None, "instanceProfile": "team/nodes"},
            ("spec.instanceProfile", "iam-name"),
        ),
        (
            {"subnetSelectorTerms": [{"tags": {"network": None}}]},
            ("spec.subnetSelectorTerms[0].tags.network", "string-type"),
        ),
        ({"userData": "x" * 16_385}, ("spec.userData", "string-too-long")),
        ({"userData": "ä" * 8_193}, ("spec.userData", "user-data")),
        ({"userData": "echo {{reservoir.nodeClaim}}"}, ("spec.userData", "user-data")),
        ({"tags": {"aws:x": "y"}}, ("spec.tags['aws:x']", "tag-restricted")),
        (
            {"tags": {"reservoir:deployment": "y"}},
            ("spec.tags['reservoir:deployment']", "tag-restricted"),
        ),
        (
            {"tags": {"karpenter.sh/nodepool": "y"}},
            ("spec.tags['karpenter.sh/nodepool']", "tag-restricted"),
        ),
        (
            {"placementGroupSelector": {"name": "a", "id": "pg-1"}},
            ("spec.placementGroupSelector", "placement-group"),
        ),
        (
            {"metadataOptions": {"httpPutResponseHopLimit": 65}},
            ("spec.metadataOptions.httpPutResponseHopLimit", "less-than-equal"),
        ),
        (
            {"blockDeviceMappings": [{"deviceName": "a", "ebs": {}}]},
            ("spec.blockDeviceMappings[0].ebs.volumeSize", "volume"),
        ),
        (
            {"blockDeviceMappings": [{"deviceName": "a", "ebs": {"volumeSize": "1Pi"}}]},
            ("spec.blockDeviceMappings[0].ebs.volumeSize", "volume-size"),
        ),
        ({"fleetTargetingMode": "reserved"}, ("spec.fleetTargetingMode", "enum")),
        (
            {"capacityReservationSelectorTerm": []},
            ("spec.capacityReservationSelectorTerm", "unknown-field"),
        ),
    ],
)
def test_what_is_wrong_is_found_at_its_place(
    fields: dict[str, Any], problem: tuple[str, str]
) -> None:
    assert problem in valid.errors(with_spec(**fields))


def test_a_volume_is_never_smaller_than_asked_for() -> None:
    mapping = {"deviceName": "a", "ebs": {"volumeSize": "20G"}}
    core = NodeClassManifest.model_validate(
        with_spec(blockDeviceMappings=[mapping])
    ).to_core()
    # 20e9 bytes are 18.6 GiB
    assert core.block_device_mappings[0]["Ebs"] == {"VolumeSize": 19}


SIZE_PATH = "spec.blockDeviceMappings[0].ebs.volumeSize"


@pytest.mark.parametrize("size", ["1Gi", "59000Gi", "64000G", "1Ti", "18Ti", "58Ti", "64T"])
def test_sizes_of_volumes_that_karpenter_takes(size: str) -> None:
    assert not valid.errors(
        with_spec(blockDeviceMappings=[{"deviceName": "a", "ebs": {"volumeSize": size}}])
    )


@pytest.mark.parametrize(
    ("size", "hint"),
    [
        (100, "100Gi"),  # as bytes it would be 1 GiB
        ("100", "100Gi"),
        ("102400Mi", "100Gi"),
        ("0100Gi", "100Gi"),
        ("0.5Ti", "512Gi"),
        ("65536Gi", None),
        ("65T", None),
        ("80GB", "80G"),
    ],
)
def test_other_sizes_of_volumes_are_refused_with_what_was_meant(
    size: object, hint: str | None
) -> None:
    manifest = with_spec(
        blockDeviceMappings=[{"deviceName": "a", "ebs": {"volumeSize": size}}]
    )
    _, problems = read_document(Document(manifest))
    (problem,) = [each for each in problems if each.severity is Severity.ERROR]
    assert (problem.path, problem.suggestion) == (SIZE_PATH, hint)


def test_a_size_that_an_earlier_release_stored_is_read_as_it_was_understood() -> None:
    manifest = with_spec(
        blockDeviceMappings=[{"deviceName": "a", "ebs": {"volumeSize": "100"}}]
    )
    core = NodeClassManifest.model_validate(manifest, context=STORED).to_core()
    assert core.block_device_mappings[0]["Ebs"] == {"VolumeSize": 1}


@pytest.mark.parametrize(
    "role",
    [
        "arn:aws:iam::123456789012:role/node",
        "arn:aws-cn:iam::123456789012:role/a/b/node",
        "/team/node",
        "node",
    ],
)
def test_a_role_is_named_by_its_arn_or_with_its_path(role: str) -> None:
    core = NodeClassManifest.model_validate(with_spec(role=role)).to_core()
    assert core.role == "node"
    assert (
        core.static_hash
        == NodeClassManifest.model_validate(with_spec(role="node")).to_core().static_hash
    )


def disk(device: str, gib: int) -> dict[str, Any]:
    return {
        "DeviceName": device,
        "Ebs": {"Encrypted": True, "VolumeSize": gib, "VolumeType": "gp3"},
    }


def core(**fields: Any) -> NodeClass:
    return NodeClassManifest.model_validate(with_spec(**fields)).to_core()


@pytest.mark.parametrize(
    ("fields", "disks"),
    [
        ({"amiFamily": "AL2023"}, [disk("/dev/xvda", 20)]),
        ({"amiFamily": "AL2"}, [disk("/dev/xvda", 20)]),
        (
            {"amiFamily": None, "amiSelectorTerms": [{"alias": "al2023@latest"}]},
            [disk("/dev/xvda", 20)],
        ),
        ({"amiFamily": "Bottlerocket"}, [disk("/dev/xvda", 4), disk("/dev/xvdb", 20)]),
        ({"amiFamily": "Custom", "amiSelectorTerms": [{"alias": "al2023@latest"}]}, []),
        ({"amiFamily": None}, []),
    ],
)
def test_a_class_without_disks_has_those_of_its_family(
    fields: dict[str, Any], disks: list[dict[str, Any]]
) -> None:
    found = core(**fields, blockDeviceMappings=None)
    assert list(found.block_device_mappings) == disks
    # nothing drifts by it
    assert found.static_hash == core(amiFamily=None, blockDeviceMappings=None).static_hash
    assert found.root_volume_bytes is None


def sized(**sizes: str) -> list[dict[str, Any]]:
    return [
        {"deviceName": f"/dev/{device}", "ebs": {"volumeSize": size}}
        for device, size in sizes.items()
    ]


@pytest.mark.parametrize(
    ("family", "mappings", "gib"),
    [
        ("AL2023", sized(xvda="500Gi", xvdb="100Gi"), 500),
        ("AL2023", sized(xvdb="100Gi"), None),
        ("Bottlerocket", sized(xvda="10Gi", xvdb="100Gi"), 100),
        ("Custom", sized(xvda="10Gi", xvdb="100Gi"), 100),
        (None, sized(sda1="30Gi", xvdb="100Gi"), 30),
        (
            "AL2023",
            [*sized(xvda="10Gi"), {**sized(xvdb="70Gi")[0], "rootVolume": True}],
            70,
        ),
        ("AL2023", [{"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}}], None),
    ],
)
def test_replicas_have_the_volume_that_karpenter_gives_them(
    family: str | None, mappings: list[dict[str, Any]], gib: int | None
) -> None:
    found = core(amiFamily=family, blockDeviceMappings=mappings)
    assert found.root_volume_bytes == (None if gib is None else gib << 30)


def test_local_disks_are_storage_where_the_class_says_raid0() -> None:
    assert core(instanceStorePolicy="RAID0").local_disks_are_storage
    assert not core().local_disks_are_storage
    assert valid.errors(with_spec(instanceStorePolicy="RAID1")) == {
        ("spec.instanceStorePolicy", "instance-store-policy")
    }


def test_one_volume_is_the_root() -> None:
    twice = [{**each, "rootVolume": True} for each in sized(xvda="10Gi", xvdb="70Gi")]
    assert valid.errors(with_spec(blockDeviceMappings=twice)) == {
        ("spec.blockDeviceMappings", "root-volume")
    }


def told(**fields: Any) -> list[str]:
    _, problems = read_document(Document(with_spec(**fields)))
    return [
        f"{problem.path}: {problem.message}"
        for problem in problems
        if problem.severity is Severity.ERROR
    ]


@pytest.mark.parametrize(
    "alias",
    [
        "al2023@latest",
        "al2023@2023.5.20240708.0",
        "al2@2.0.20240709.1",
        "bottlerocket@v1.20.0",
        "bottlerocket@1.20.0",
    ],
)
def test_aliases_that_select_an_image(alias: str) -> None:
    assert not told(amiSelectorTerms=[{"alias": alias}], amiFamily=None)


@pytest.mark.parametrize(
    ("alias", "why"),
    [
        ("al2023@v20240703", "select the image by name and owner, or by ssmParameter"),
        ("al2@v20240703", "select the image by name and owner, or by ssmParameter"),
        (
            "bottlerocket@v1.20",
            "AWS does not number so: bottlerocket@v1.20.0 or bottlerocket@latest",
        ),
        (
            "windows2022@latest",
            "Windows is not served: instance types are known by what they are and cost with Linux",
        ),
    ],
)
def test_aliases_that_select_nothing_here_are_refused_with_what_to_do(
    alias: str, why: str
) -> None:
    (problem,) = told(amiSelectorTerms=[{"alias": alias}], amiFamily=None)
    assert problem.startswith("spec.amiSelectorTerms[0].alias: ")
    assert why in problem


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"amiFamily": "Windows2022"}, ("spec.amiFamily", "windows")),
        ({"amiFamily": "Ubuntu"}, ("spec.amiFamily", "ami-family")),
        ({"amiFamily": "AL2", "amiSelectorTerms": [{"alias": "al2023@latest"}]}, ("spec.amiFamily", "ami-family")),
        ({"platform": "Windows with SQL Server"}, ("spec.platform", "windows")),
        ({"connectionTracking": {"tcpEstablishedTimeout": 59}},
         ("spec.connectionTracking.tcpEstablishedTimeout", "greater-than-equal")),
        ({"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa-only"}]},
         ("spec.networkInterfaces", "not-served")),
        ({"networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"}]},
         ("spec.networkInterfaces", "not-served")),
        ({"enclaveOptions": {"enabled": True}}, ("spec.enclaveOptions", "not-served")),
        ({"cpuOptions": {"coreCount": 2}}, ("spec.cpuOptions", "not-served")),
    ],
)  # fmt: skip
def test_families_and_settings_that_are_refused(
    fields: dict[str, Any], problem: tuple[str, str]
) -> None:
    assert valid.errors(with_spec(**fields)) == {problem}


def test_settings_that_ask_for_nothing_are_taken() -> None:
    assert not told(enclaveOptions={"enabled": False}, cpuOptions={}, networkInterfaces=[])
    assert not told(amiFamily="Custom", amiSelectorTerms=[{"alias": "al2023@latest"}])


def test_a_windows_class_that_an_earlier_release_stored_is_still_read() -> None:
    manifest = with_spec(amiSelectorTerms=[{"alias": "windows2022@latest"}], platform=None)
    assert (
        NodeClassManifest.model_validate(manifest, context=STORED).to_core().platform
        == "Windows"
    )


def test_whoever_comes_from_a_cluster_is_told_what_an_alias_selects() -> None:
    def notes(**fields: Any) -> list[str]:
        _, problems = read_document(
            Document(with_spec(amiSelectorTerms=[{"alias": "al2023@latest"}], **fields))
        )
        return [problem.message for problem in problems if problem.rule == "note"]

    plain: dict[str, Any] = {"kubelet": None, "amiFamily": None}
    assert notes(**plain) == []
    (note,) = notes(
        **plain, subnetSelectorTerms=[{"tags": {"karpenter.sh/discovery": "shop"}}]
    )
    assert note.startswith(
        "al2023@latest is the newest Amazon Linux 2023, not the image for EKS"
    )
    assert "drivers of GPUs" in note


def test_the_hash_leaves_selectors_out() -> None:
    def digest(**fields: Any) -> str:
        return NodeClassManifest.model_validate(with_spec(**fields)).to_core().static_hash

    same = digest()
    assert (
        digest(capacityReservationSelectorTerms=None, amiSelectorTerms=[{"id": "ami-2"}])
        == same
    )
    assert digest(subnetSelectorTerms=[{"id": "subnet-2"}], kubelet=None) == same
    assert digest(userData="other") != same
    assert digest(tags=None) != same
