"""A deployment's customer managed key encrypts whatever stores something; each role uses it for that alone."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from infra.iam.acknowledgements import as_reported
from tests.infra.reading import of_type, statements
from tests.infra.synthesis import template_app
from tests.once import MakeOnce

KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.fixture(scope="module")
def resources(make_once: MakeOnce) -> Mapping[str, Any]:
    folder = make_once(
        "encrypted-cdk.out",
        lambda made: template_app(made, {"encryptionKey": KEY}).synth(),
    )
    (template,) = folder.glob("*.template.json")
    found: Mapping[str, Any] = json.loads(template.read_text())["Resources"]
    return found


def keys_of(resources: Mapping[str, Any], kind: str, *path: str) -> Iterator[Any]:
    for properties in of_type(resources, kind).values():
        found: Any = properties
        for name in path:
            found = found[0][name] if isinstance(found, list) else found[name]
        yield found


def test_tables_queues_bucket_logs_and_variables_are_encrypted_with_the_key(
    resources: Mapping[str, Any],
) -> None:
    places = {
        "AWS::DynamoDB::Table": ["SSESpecification", "KMSMasterKeyId"],
        "AWS::SQS::Queue": ["KmsMasterKeyId"],
        "AWS::S3::Bucket": [
            "BucketEncryption",
            "ServerSideEncryptionConfiguration",
            "ServerSideEncryptionByDefault",
            "KMSMasterKeyID",
        ],
        "AWS::Logs::LogGroup": ["KmsKeyId"],
        "AWS::Lambda::Function": ["KmsKeyArn"],
    }
    for kind, path in places.items():
        assert set(keys_of(resources, kind, *path)) == {KEY}, kind
    for queue in of_type(resources, "AWS::SQS::Queue").values():
        assert "SqsManagedSseEnabled" not in queue


def test_the_key_is_used_through_what_stores_with_it_and_for_own_variables(
    resources: Mapping[str, Any],
) -> None:
    using = [
        statement
        for statement in statements(resources)
        if any(action.startswith("kms:") for action in statement.actions)
    ]
    services = {f"{name}.<AWS::Region>.amazonaws.com" for name in ("dynamodb", "s3", "sqs")}
    for statement in using:
        assert statement.resources == (KEY,)
        assert "kms:CreateGrant" not in statement.actions
        conditions = statement.conditions["StringEquals"]
        own = conditions.get("kms:EncryptionContext:aws:lambda:FunctionArn")
        if own is not None:
            assert statement.actions == ("kms:Decrypt",)
            assert ":function:Reservoir-" in as_reported(own)
        else:
            named = conditions["kms:ViaService"]
            through = named if isinstance(named, list) else [named]
            assert {as_reported(each) for each in through} <= services


def test_each_function_and_the_timers_may_use_the_key(resources: Mapping[str, Any]) -> None:
    functions = of_type(resources, "AWS::Lambda::Function")
    assert len(holders(resources, for_people=False)) == len(functions) + 1
    # a team's operator asks a function alone, and needs no key
    assert {each[6:-8] for each in holders(resources, for_people=True)} == {
        "Node",
        "Operator",
        "Sender",
        "Viewer",
    }


def holders(resources: Mapping[str, Any], *, for_people: bool) -> set[str]:
    """Return the policies with rights in KMS."""
    return {
        statement.policy
        for statement in statements(resources, for_people=for_people)
        if any(action.startswith("kms:") for action in statement.actions)
    }
