"""The release: the same resources as the CDK's, under parameters; files that say what they are."""

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.release.package import (
    Component,
    bill_of_materials,
    checksums,
    components,
    licences,
    zip_assets,
)
from infra.release.template import STACK, deployed_as, released, without_name
from infra.release.terraform import module, snake
from infra.release.write import layer_of, synthesise, templates_of
from tests.infra.synthesis import template_app
from tests.once import MakeOnce

LOCK = Path(__file__).parents[3] / "requirements" / "runtime.txt"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/"
TOPIC = "arn:aws:sns:eu-west-1:111122223333:pages"


@pytest.fixture(scope="session")
def assembly(make_once: MakeOnce) -> Path:
    """Return the assembly that a release is made of."""
    return make_once("release.cdk.out", synthesise)


@pytest.fixture(scope="session")
def synthesised(assembly: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((assembly / f"{STACK}.template.json").read_text())
    return found


@pytest.fixture(scope="session")
def plain(assembly: Path, synthesised: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the released template."""
    return released(synthesised, templates_of(assembly)[1], keys_of(assembly))


def keys_of(assembly: Path) -> dict[str, str]:
    files = [
        each
        for path in assembly.glob("*.assets.json")
        for each in json.loads(path.read_text())["files"].values()
    ]
    keys = [
        destination["objectKey"]
        for each in files
        for destination in each["destinations"].values()
    ]
    return {key: key for key in keys}


def comparable(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources without what says where assets lie, and what the CDK notes for itself."""
    absent = {"Ref": "AWS::NoValue"}
    found = {}
    for logical_id, resource in resources.items():
        stated = {k: v for k, v in resource.get("Properties", {}).items() if v != absent}
        properties = {k: v for k, v in stated.items() if k not in ("Code", "Content")}
        kept = {k: v for k, v in resource.items() if k not in ("Metadata", "Properties")}
        found[logical_id] = {**kept, "Properties": properties}
    return found


@pytest.mark.parametrize("topic", [TOPIC, ""], ids=["told", "silent"])
def test_it_makes_what_the_cdk_makes(
    plain: Mapping[str, Any], make_once: MakeOnce, topic: str
) -> None:
    chosen: dict[str, Any] = {
        "stack": "Example-west",
        "instanceRole": "nodes-*",
        "solveBudgetS": 20,
    }
    if topic:
        chosen["alarmTopic"] = topic

    def synth(folder: Path) -> None:
        template_app(folder, chosen).synth()

    folder = make_once(f"as-released-{bool(topic)}.cdk.out", synth)
    template = json.loads((folder / "Example-west.template.json").read_text())
    by_cdk = without_name(template, "Examplewest")["Resources"]
    parameters = {
        "InstanceRole": "nodes-*",
        "AlarmTopic": topic,
        "SolveBudgetS": "20",
        "ProtectTables": "true",
    }
    assert comparable(deployed_as(plain, "Example-west", parameters)) == comparable(
        {key: each for key, each in by_cdk.items() if each["Type"] != "AWS::CDK::Metadata"}
    )


CHOICES: Mapping[str, tuple[dict[str, Any], dict[str, str]]] = {
    "boundary": (
        {"permissionsBoundary": "arn:aws:iam::111122223333:policy/bounds"},
        {"PermissionsBoundary": "arn:aws:iam::111122223333:policy/bounds"},
    ),
    "key": ({"encryptionKey": f"{KEY}1"}, {"EncryptionKey": f"{KEY}1"}),
    "keys of volumes": (
        {"kmsKeys": [f"{KEY}2", f"{KEY}3"]},
        {"VolumeKeys": f"{KEY}2,{KEY}3"},
    ),
    "VPC": (
        {
            "vpc": {
                "subnets": ["subnet-01234567", "subnet-89abcdef"],
                "securityGroups": ["sg-01234567", "sg-89abcdef"],
            }
        },
        {
            "FunctionSubnets": "subnet-01234567,subnet-89abcdef",
            "FunctionSecurityGroups": "sg-01234567,sg-89abcdef",
        },
    ),
}


@pytest.mark.parametrize(
    "chosen", [*([name] for name in CHOICES), [*CHOICES]], ids="+".join
)
def test_each_choice_of_an_account_makes_what_the_cdk_makes(
    plain: Mapping[str, Any], make_once: MakeOnce, chosen: list[str]
) -> None:
    settings: dict[str, Any] = {"stack": "Example-west", "instanceRole": "nodes-*"}
    parameters = {"InstanceRole": "nodes-*", "ProtectTables": "true"}
    for name in chosen:
        settings |= CHOICES[name][0]
        parameters |= CHOICES[name][1]
    folder = make_once(
        f"chosen-{'-'.join(chosen)}.cdk.out",
        lambda made: template_app(made, settings).synth(),
    )
    template = json.loads((folder / "Example-west.template.json").read_text())
    by_cdk = without_name(template, "Examplewest")["Resources"]
    assert comparable(deployed_as(plain, "Example-west", parameters)) == comparable(
        {key: each for key, each in by_cdk.items() if each["Type"] != "AWS::CDK::Metadata"}
    )


def test_no_name_of_the_release_is_left(plain: Mapping[str, Any]) -> None:
    assert "OfTheRelease" not in json.dumps(plain)
    assert "0fe1ea5e" not in json.dumps(plain)
    # CloudFormation's limit of a template in a bucket
    assert len(json.dumps(plain)) < 1_000_000


def test_defaults_are_what_parameters_allow(plain: Mapping[str, Any]) -> None:
    required = {name for name, each in plain["Parameters"].items() if "Default" not in each}
    assert required == {"AssetBucket", "InstanceRole"}
    for name, each in plain["Parameters"].items():
        if "Default" in each:
            assert re.fullmatch(each.get("AllowedPattern", ".*"), each["Default"]), name
            assert each["Default"] in each.get("AllowedValues", [each["Default"]]), name


def test_terraform_has_a_variable_for_each_parameter_and_an_output_for_each_output(
    plain: Mapping[str, Any],
) -> None:
    text = module(plain)
    variables = set(re.findall(r'^variable "(\w+)"', text, re.MULTILINE))
    assert variables == {snake(name) for name in plain["Parameters"]} | {"stack_name"}
    assert set(re.findall(r'^output "(\w+)"', text, re.MULTILINE)) == {
        snake(name) for name in plain["Outputs"]
    }
    given = dict(re.findall(r"^    (\w+) += var\.(\w+)$", text, re.MULTILINE))
    assert given == {name: snake(name) for name in plain["Parameters"]}
    assert text.count("{") == text.count("}")


def test_zips_are_the_same_whenever_they_are_made(tmp_path: Path) -> None:
    assembly = tmp_path / "assembly"
    (assembly / "asset.1").mkdir(parents=True)
    (assembly / "asset.1" / "handler.py").write_text("pass")
    place = {"objectKey": "1.zip", "bucketName": "b"}
    asset = {
        "source": {"path": "asset.1", "packaging": "zip"},
        "destinations": {"here": place},
    }
    (assembly / "x.assets.json").write_text(json.dumps({"files": {"1": asset}}))
    assert zip_assets(assembly, tmp_path / "a") == {"1.zip": "1.zip"}
    (assembly / "asset.1" / "handler.py").touch()
    zip_assets(assembly, tmp_path / "b")
    assert (tmp_path / "a" / "1.zip").read_bytes() == (
        tmp_path / "b" / "1.zip"
    ).read_bytes()
    assert zipfile.ZipFile(tmp_path / "a" / "1.zip").namelist() == ["handler.py"]
    assert checksums(tmp_path / "a") == checksums(tmp_path / "b")


def test_the_bill_names_every_package_of_the_lock_with_a_licence(
    assembly: Path, synthesised: Mapping[str, Any]
) -> None:
    found = components(layer_of(assembly, synthesised))
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK.read_text(), re.MULTILINE))
    here = {each.name.lower().replace("_", "-"): each.version for each in found}
    assert (
        here.items()
        <= {
            name.lower().replace("_", "-"): version for name, version in locked.items()
        }.items()
    )
    assert {"botocore", "pydantic", "numpy", "highspy"} <= here.keys()
    assert [each.name for each in found if each.licence == "not stated"] == []
    bill = bill_of_materials("1.0.0", found)
    assert {each["purl"] for each in bill["components"]} == {
        f"pkg:pypi/{name}@{version}" for name, version in here.items()
    }


def test_licences_are_told_with_their_texts() -> None:
    text = licences(
        [Component("numpy", "2.0", "BSD-3-Clause", {"LICENSE.txt": "Copyright\n"})]
    )
    assert "numpy 2.0: BSD-3-Clause" in text
    assert "Copyright" in text
