"""What a stack could not take back stays in it until it is deleted, as on AWS."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, unique, until
from tests.embedded.limits.test_requests import TABLE

pytestmark = pytest.mark.embedded


def test_what_a_create_that_failed_left_stands_in_the_way_until_it_can_be_deleted(
    resources: Resources,
) -> None:
    cloudformation = resources.aws.client("cloudformation")
    name, table = unique("stack"), unique("table")
    kept = {**TABLE, "TableName": table, "DeletionProtectionEnabled": True}
    template = {
        "Resources": {
            "Kept": {"Type": "AWS::DynamoDB::Table", "Properties": kept},
            "Wrong": {
                "Type": "AWS::Events::Rule",
                "Properties": {"Name": "x" * 65, "ScheduleExpression": "rate(1 day)"},
                "DependsOn": "Kept",
            },
        }
    }
    made = cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))

    def status() -> str:
        found = cloudformation.describe_stacks(StackName=made["StackId"])["Stacks"]
        return str(found[0]["StackStatus"])

    def ended() -> str | None:
        found = status()
        return None if found.endswith("_IN_PROGRESS") else found

    def change() -> Any:
        return cloudformation.create_change_set(
            StackName=name, ChangeSetName="change", TemplateBody=json.dumps(template)
        )

    assert until(ended) == "ROLLBACK_FAILED"
    left = cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
    assert [(it["PhysicalResourceId"], it["ResourceStatus"]) for it in left] == [
        (table, "DELETE_FAILED")
    ]
    with pytest.raises(ClientError, match="ROLLBACK_FAILED state and can not be updated"):
        change()
    cloudformation.delete_stack(StackName=name)
    assert until(ended) == "DELETE_FAILED"
    with pytest.raises(ClientError, match="DELETE_FAILED state and can not be updated"):
        change()
    resources.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    cloudformation.delete_stack(StackName=name)
    assert until(ended) == "DELETE_COMPLETE"
    assert table not in resources.dynamodb.list_tables()["TableNames"]
