"""The layer carries the models of what the adapters call: all of that, and nothing else."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore import xform_name
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape

from infra.assets import bundle
from infra.assets.aws_models import OPERATIONS, trim
from infra.assets.bundle import ROOT
from tests.infra.test_assets import asset_folder, functions_of

FULL = Path(botocore.__file__).parent / "data"


def loader(data: Path) -> Loader:
    return Loader(extra_search_paths=[str(data)], include_default_search_paths=False)


def service(data: Path, name: str) -> ServiceModel:
    return ServiceModel(loader(data).load_service_model(name, "service-2"), name)


def sources() -> Iterator[ast.AST]:
    for path, text in bundle.code().items():
        if path.suffix == ".py":
            yield from ast.walk(ast.parse(text))


def services_with_clients() -> set[str]:
    """Return the services for which the product makes clients: the first argument of what makes them."""
    return {
        node.args[0].value
        for node in sources()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"lazy_client", "make_client"}
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def words() -> set[str]:
    """Return every attribute and every text of the adapters: operations are called by name, paginators take them."""
    found: set[str] = set()
    for path in (ROOT / "shared" / "reservoir" / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.fixture(scope="module")
def layer_data(embedded_assembly: Path) -> Path:
    """Botocore's data in the layer as it is built."""
    _, layer = functions_of(embedded_assembly)
    return (
        asset_folder(embedded_assembly, layer["Content"]["S3Key"])
        / "python"
        / "botocore"
        / "data"
    )


def test_every_client_that_the_product_makes_is_in_the_layer() -> None:
    asked = services_with_clients()
    assert len(asked) > 5, "clients are made in another way than this test reads"
    missing = asked - OPERATIONS.keys()
    assert not missing, (
        f"add {sorted(missing)} to OPERATIONS in infra/assets/aws_models.py: no function could make a client"
    )
    unused = OPERATIONS.keys() - asked
    assert not unused, (
        f"take {sorted(unused)} out of OPERATIONS in infra/assets/aws_models.py: nothing asks for a client"
    )


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_that_the_adapters_call_is_in_the_layer(name: str) -> None:
    spoken = words()
    called = {
        operation
        for operation in service(FULL, name).operation_names
        if xform_name(operation) in spoken
    }
    listed = set(OPERATIONS[name])
    assert not called - listed, (
        f"add {sorted(called - listed)} to {name} in infra/assets/aws_models.py"
    )
    assert not listed - called, (
        f"no adapter calls {sorted(listed - called)}: take them out of infra/assets/aws_models.py"
    )


def described(shape: Shape | None, above: tuple[str, ...] = ()) -> Any:
    """Return a shape with all that it consists of, as botocore sees it; a shape within itself by its name."""
    if shape is None:
        return None
    if shape.name in above:
        return shape.name
    inner = (*above, shape.name)
    parts: dict[str, Any] = {
        "type": shape.type_name,
        "serialization": shape.serialization,
        "is": shape.metadata,
    }
    for name, member in getattr(shape, "members", {}).items():
        parts[f"member {name}"] = described(member, inner)
    for part in ("member", "key", "value"):
        if shape.type_name in {"list", "map"} and hasattr(shape, part):
            parts[part] = described(getattr(shape, part), inner)
    return parts


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_what_is_left_means_what_it_meant(name: str, layer_data: Path) -> None:
    full, left = service(FULL, name), service(layer_data, name)
    assert set(left.operation_names) == set(OPERATIONS[name])
    assert left.metadata == full.metadata
    for operation in left.operation_names:
        ours, theirs = left.operation_model(operation), full.operation_model(operation)
        assert described(ours.input_shape) == described(theirs.input_shape)
        assert described(ours.output_shape) == described(theirs.output_shape)
        assert [described(shape) for shape in ours.error_shapes] == [
            described(shape) for shape in theirs.error_shapes
        ]
        assert (ours.http, ours.auth_type, ours.idempotent_members) == (
            theirs.http,
            theirs.auth_type,
            theirs.idempotent_members,
        )


# As a function makes them: from the layer alone, in some regions whose names or addresses are special.
MAKE_CLIENTS = """
import json, sys
from botocore.session import get_session

session = get_session()
addresses = {}
for region in sys.argv[2:]:
    for service in json.loads(sys.argv[1]):
        client = session.create_client(service, region_name=region, aws_access_key_id="a", aws_secret_access_key="b")
        addresses[f"{service} {region}"] = [client.meta.endpoint_url, len(client.exceptions.__dict__) > 0]
print(json.dumps(addresses))
"""
REGIONS = ("us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1")


def clients_of(packages: Path, *services: str) -> Mapping[str, Any]:
    answer = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-S", "-B", "-c", MAKE_CLIENTS, json.dumps(services), *REGIONS],
        cwd="/",
        env={"PYTHONPATH": str(packages), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr)
    made: Mapping[str, Any] = json.loads(answer.stdout)
    return made


def test_the_built_layer_makes_each_client_with_the_address_that_botocore_gives_it(
    layer_data: Path,
) -> None:
    ours = clients_of(layer_data.parents[1], *sorted(OPERATIONS))
    theirs = clients_of(FULL.parents[1], *sorted(OPERATIONS))
    assert ours == theirs


def test_a_client_of_anything_else_cannot_be_made_and_says_so(layer_data: Path) -> None:
    with pytest.raises(RuntimeError, match="Unknown service: 'kms'"):
        clients_of(layer_data.parents[1], "kms")


def test_an_operation_that_aws_does_not_have_is_refused(tmp_path: Path) -> None:
    shutil.copytree(FULL / "sqs", tmp_path / "sqs")
    with pytest.raises(KeyError, match="SendLetter"):
        trim(tmp_path, {"sqs": ("SendMessage", "SendLetter")})
