"""A policy can hold a caller to rows by their keys, and to attributes by their names, whatever the operation."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, allow, unique

pytestmark = pytest.mark.embedded

OWN, FOREIGN = {"id": {"S": "own 1"}}, {"id": {"S": "theirs"}}
OWN_ROWS = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["own *"]}}
OWN_ATTRIBUTES = {
    "ForAllValues:StringEquals": {"dynamodb:Attributes": ["id", "status"]},
    "Null": {"dynamodb:Attributes": "false"},
}
QUERY = {"KeyConditionExpression": "#k = :v", "ExpressionAttributeNames": {"#k": "id"}}


class Tenant:
    """A user who may do anything with a table as far as a condition goes; usually to rows whose key begins with own."""

    def __init__(
        self,
        resources: Resources,
        held: dict[str, Any] = OWN_ROWS,
        table: str | None = None,
    ) -> None:
        self.table = table or resources.table()
        name = unique("tenant")
        iam = resources.aws.client("iam")
        iam.create_user(UserName=name)
        statement = {**allow("dynamodb:*"), "Condition": held}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self.dynamodb = resources.aws.client(
            "dynamodb",
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )


@pytest.fixture(scope="module")
def tenant(resources: Resources) -> Tenant:
    return Tenant(resources)


def put(table: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": item}}


CALLS: dict[str, Callable[[Tenant, dict[str, Any]], Any]] = {
    "put": lambda it, row: it.dynamodb.put_item(TableName=it.table, Item=row),
    "get": lambda it, row: it.dynamodb.get_item(TableName=it.table, Key=row),
    "update": lambda it, row: it.dynamodb.update_item(TableName=it.table, Key=row),
    "delete": lambda it, row: it.dynamodb.delete_item(TableName=it.table, Key=row),
    "query": lambda it, row: it.dynamodb.query(
        TableName=it.table, ExpressionAttributeValues={":v": row["id"]}, **QUERY
    ),
    "batch get": lambda it, row: it.dynamodb.batch_get_item(
        RequestItems={it.table: {"Keys": [row]}}
    ),
    "batch write": lambda it, row: it.dynamodb.batch_write_item(
        RequestItems={it.table: [{"PutRequest": {"Item": row}}]}
    ),
    "batch delete": lambda it, row: it.dynamodb.batch_write_item(
        RequestItems={it.table: [{"DeleteRequest": {"Key": row}}]}
    ),
    "transaction": lambda it, row: it.dynamodb.transact_write_items(
        TransactItems=[put(it.table, row)]
    ),
    "transactional get": lambda it, row: it.dynamodb.transact_get_items(
        TransactItems=[{"Get": {"TableName": it.table, "Key": row}}]
    ),
    "check": lambda it, row: it.dynamodb.transact_write_items(
        TransactItems=[
            {
                "ConditionCheck": {
                    "TableName": it.table,
                    "Key": row,
                    "ConditionExpression": "attribute_not_exists(absent)",
                }
            }
        ]
    ),
}


@pytest.mark.parametrize("operation", CALLS)
def test_rows_of_ones_own_and_no_others(tenant: Tenant, operation: str) -> None:
    call = CALLS[operation]
    call(tenant, OWN)
    with pytest.raises(ClientError) as refused:
        call(tenant, FOREIGN)
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"


def test_one_foreign_row_among_ones_own_is_enough(tenant: Tenant) -> None:
    with pytest.raises(ClientError) as refused:
        tenant.dynamodb.transact_write_items(
            TransactItems=[put(tenant.table, OWN), put(tenant.table, FOREIGN)]
        )
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"


NAMES = {"#s": "status", "#m": "manifest", "#i": "id"}
UPDATES: dict[str, tuple[bool, str, str | None]] = {
    "sets its own": (True, "SET #s = :v", "attribute_exists(#i) AND #s <> :v"),
    "sets another": (False, "SET #m = :v", None),
    "sets another beside its own": (False, "SET #s = :v, #m = :v", None),
    "sets a part of another": (False, "SET #m.#s = :v", None),
    "takes another away": (False, "SET #s = :v REMOVE #m", None),
    "copies another": (False, "SET #s = if_not_exists(#m, :v)", None),
    "asks for another": (False, "SET #s = :v", "attribute_exists(#m)"),
    "names another by itself": (False, "SET #s = :v, manifest = :v", None),
}


@pytest.fixture(scope="module")
def noting(resources: Resources) -> Tenant:
    return Tenant(resources, OWN_ATTRIBUTES)


@pytest.mark.parametrize("case", UPDATES)
def test_attributes_of_ones_own_and_no_others(
    resources: Resources, noting: Tenant, case: str
) -> None:
    allowed, update, condition = UPDATES[case]
    row = {**OWN, "status": {"S": "old"}, "manifest": {"M": {}}}
    resources.aws.client("dynamodb").put_item(TableName=noting.table, Item=row)
    used = {name: NAMES[name] for name in NAMES if name in f"{update} {condition}"}
    request: dict[str, Any] = {
        "TableName": noting.table,
        "Key": OWN,
        "UpdateExpression": update,
        "ExpressionAttributeNames": used,
        "ExpressionAttributeValues": {":v": {"S": "new"}},
    }
    if condition is not None:
        request["ConditionExpression"] = condition
    if allowed:
        noting.dynamodb.update_item(**request)
        return
    with pytest.raises(ClientError) as refused:
        noting.dynamodb.update_item(**request)
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"


def test_who_is_held_to_attributes_puts_no_row_with_others(noting: Tenant) -> None:
    noting.dynamodb.put_item(TableName=noting.table, Item={**OWN, "status": {"S": "s"}})
    with pytest.raises(ClientError) as refused:
        noting.dynamodb.put_item(
            TableName=noting.table, Item={**OWN, "manifest": {"S": "m"}}
        )
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
    with pytest.raises(ClientError):
        noting.dynamodb.scan(TableName=noting.table)
