import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.iam.acknowledgements import as_reported
from infra.iam.permissions import READ, WRITE
from reservoir.names import (
    DEFAULT_STACK,
    IDENTITY_INDEX,
    LENDABLE_TAG,
    MARK_ROW,
    MOVABLE_TAG,
    NODE_CLAIM_TAG,
    OWNER_TAG,
    READ_WHOLE,
    Function,
    function_name,
    output_name,
)
from tests.infra.reading import Resources, of_type, statements
from tests.infra.synthesis import template_app
from tests.test_tidy import ROOT

OWNER_CONDITIONS = {f"aws:RequestTag/{OWNER_TAG}", f"aws:ResourceTag/{OWNER_TAG}"}
OF_A_TEMPLATE = {
    "ec2:LaunchTemplate": {
        "Fn::Join": [
            "",
            [
                "arn:",
                {"Ref": "AWS::Partition"},
                ":ec2:",
                {"Ref": "AWS::Region"},
                ":",
                {"Ref": "AWS::AccountId"},
                ":launch-template/*",
            ],
        ]
    }
}
READING = re.compile(
    r"[a-z0-9-]+:(Describe|Filter|Get|List|Query|BatchGet|ConditionCheck|Simulate)\w*"
)
# What a launch refers to; nothing can be launched with these alone, because the instance needs the owner tag.
REFERRED = re.compile(
    r".*:(capacity-reservation|placement-group|security-group|spot-instances-request|subnet|image|snapshot)/\*"
    r"|arn:.*:resource-groups:.*:group/\*"
)


def test_a_mutating_action_on_a_pattern_needs_the_owner_tag(resources: Resources) -> None:
    for statement in statements(resources):
        mutating = [action for action in statement.actions if not READING.fullmatch(action)]
        patterns = [
            resource
            for resource in statement.resources
            if "*" in resource and not REFERRED.fullmatch(resource)
        ]
        if not (mutating and patterns):
            continue
        if any(action.startswith("ec2:") for action in mutating):
            assert statement.condition_keys & OWNER_CONDITIONS, statement
        else:
            narrowed = {
                "iam:PassRole": "iam:PassedToService",
                "resource-groups:GroupResources": None,  # groups named for us
                "s3:PutObject": None,  # a key below our own bucket
                "scheduler:CreateSchedule": None,  # a schedule in our own group
            }
            first = next(action for action in mutating if action in narrowed)
            condition = narrowed[first]
            assert condition is None or condition in statement.condition_keys, statement
            assert not any(resource == "*" for resource in patterns), statement


def test_star_is_allowed_only_for_reading_and_only_in_the_region(
    resources: Resources,
) -> None:
    starred = [
        statement for statement in statements(resources) if "*" in statement.resources
    ]
    assert starred
    for statement in starred:
        assert all(READING.fullmatch(action) for action in statement.actions), statement
        if statement.sid != "ReadPrices":  # the price list is global
            assert "aws:RequestedRegion" in statement.condition_keys, statement


def test_no_action_is_a_pattern(resources: Resources) -> None:
    assert [
        statement
        for statement in statements(resources)
        if any("*" in action for action in statement.actions)
    ] == []


def test_units_move_only_between_reservations_that_are_tagged_for_it(
    resources: Resources,
) -> None:
    action = "ec2:MoveCapacityReservationInstances"
    (statement,) = [
        statement for statement in statements(resources) if action in statement.actions
    ]
    assert statement.policy.startswith("Disrupt")
    assert statement.condition_keys == {f"aws:ResourceTag/{MOVABLE_TAG}"}
    assert all(":capacity-reservation/" in resource for resource in statement.resources)


def test_units_are_split_off_what_is_tagged_for_it_into_what_is_tagged_as_ours(
    resources: Resources,
) -> None:
    action = "ec2:CreateCapacityReservationBySplitting"
    found = [
        statement for statement in statements(resources) if action in statement.actions
    ]
    assert all(statement.policy.startswith("Disrupt") for statement in found)
    assert [statement.condition_keys for statement in found] == [
        {f"aws:ResourceTag/{MOVABLE_TAG}"},
        {f"aws:RequestTag/{OWNER_TAG}", f"aws:RequestTag/{MOVABLE_TAG}"},
    ]
    (joining,) = [
        statement
        for statement in statements(resources)
        if "resource-groups:GroupResources" in statement.actions
    ]
    assert [resource.rpartition("/")[2] for resource in joining.resources] == [
        "reservoir-*"
    ]


def test_units_are_lent_and_taken_back_only_of_what_is_tagged_for_it(
    resources: Resources,
) -> None:
    def holding(action: str) -> list[Any]:
        return [each for each in statements(resources) if action in each.actions]

    lending = holding("ec2:CreateInterruptibleCapacityReservationAllocation")
    assert all(each.policy.startswith("Disrupt") for each in lending)
    assert [each.condition_keys for each in lending] == [
        {f"aws:ResourceTag/{LENDABLE_TAG}"},
        {f"aws:RequestTag/{OWNER_TAG}"},
    ]
    changing = holding("ec2:UpdateInterruptibleCapacityReservationAllocation")
    assert {each.policy.partition("Role")[0] for each in changing} == {
        "Disrupt",
        "Provision",
    }
    for each in changing:
        assert each.condition_keys == {f"aws:ResourceTag/{LENDABLE_TAG}"}


def test_only_launch_launches_and_only_with_the_tag(resources: Resources) -> None:
    for action in ("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate"):
        holders = {
            statement.policy
            for statement in statements(resources)
            if action in statement.actions
        }
        assert len(holders) == 1, action
        assert next(iter(holders)).startswith("Launch")
    on_instances = [
        statement
        for statement in statements(resources)
        if "ec2:RunInstances" in statement.actions
        and any(":instance/" in resource for resource in statement.resources)
    ]
    assert [statement.conditions for statement in on_instances] == [
        {
            "StringEquals": {
                f"aws:RequestTag/{OWNER_TAG}": "Reservoir",
                "ec2:MetadataHttpTokens": "required",
            },
            "ArnLike": OF_A_TEMPLATE,
        }
    ]


def test_nothing_is_launched_but_from_a_launch_template_of_ours(
    resources: Resources,
) -> None:
    """Without a template ``ec2:LaunchTemplate`` is absent, which no test of it passes."""
    launching = [
        statement
        for statement in statements(resources)
        if "ec2:RunInstances" in statement.actions
    ]
    created = ("instance", "network-interface", "volume")
    for statement in launching:
        kinds = {resource.split(":")[-1].split("/")[0] for resource in statement.resources}
        if kinds & set(created):
            assert statement.conditions["ArnLike"] == OF_A_TEMPLATE, statement
        # of RunInstances; a fleet is asked for before EC2 looks at the template
        if "launch-template" in kinds:
            assert statement.conditions == {
                "StringEquals": {f"aws:ResourceTag/{OWNER_TAG}": "Reservoir"}
            }
        if "image" in kinds:
            assert statement.conditions == {
                "Bool": {"ec2:IsLaunchTemplateResource": "true"}
            }


def test_keys_are_used_for_volumes_alone_and_only_those_of_the_settings(
    tmp_path: Path,
) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd"
    template_app(tmp_path, {"kmsKeys": [key]}).synth()
    template = json.loads((tmp_path / f"{DEFAULT_STACK}.template.json").read_text())
    using = [
        statement
        for statement in statements(template["Resources"])
        if any(action.startswith("kms:") for action in statement.actions)
    ]
    assert {action for statement in using for action in statement.actions} == {
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
    }
    for statement in using:
        assert statement.policy.startswith("Launch")
        assert statement.resources == (key,)
        through = as_reported(statement.conditions["StringEquals"]["kms:ViaService"])
        assert through == "ec2.<AWS::Region>.amazonaws.com"
        if "kms:CreateGrant" in statement.actions:
            assert statement.actions == ("kms:CreateGrant",)
            assert statement.conditions["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    assert "LaunchRole" in str(template["Outputs"]["LaunchRoleArn"]["Value"])
    assert template["Outputs"]["KmsKeys"]["Value"] == key


def test_no_key_is_used_unless_the_settings_name_it(resources: Resources) -> None:
    assert [
        s
        for s in statements(resources)
        if any(action.startswith("kms:") for action in s.actions)
    ] == []


def test_a_deployment_may_let_classes_choose_how_metadata_is_read(tmp_path: Path) -> None:
    template_app(tmp_path, {"metadataHttpTokens": "optional"}).synth()
    template = json.loads((tmp_path / f"{DEFAULT_STACK}.template.json").read_text())
    assert not any(
        "ec2:MetadataHttpTokens" in s.condition_keys
        for s in statements(template["Resources"])
    )


def test_only_a_launch_sets_the_owner_tag(resources: Resources) -> None:
    tagging = [
        statement
        for statement in statements(resources)
        if "ec2:CreateTags" in statement.actions
    ]
    assert {statement.sid for statement in tagging} == {
        "TagAtLaunch",
        "NameTheClaim",
        "TagOfLentUnits",
        "TagOfUnits",
    }
    for statement in tagging:
        if statement.sid == "TagAtLaunch":
            assert statement.policy.startswith("Launch")
            assert "ec2:CreateAction" in statement.condition_keys
        elif statement.sid in ("TagOfUnits", "TagOfLentUnits"):
            # of what is split off a reservation or lent of it: no instance gets it
            assert "ec2:CreateAction" in statement.condition_keys
            assert all(":capacity-reservation/" in it for it in statement.resources)
        else:
            assert statement.conditions["ForAllValues:StringEquals"] == {
                "aws:TagKeys": [NODE_CLAIM_TAG]
            }
            assert statement.conditions["Null"] == {"aws:TagKeys": "false"}


def test_nothing_ends_or_changes_instances_of_others(resources: Resources) -> None:
    ending = [
        statement
        for statement in statements(resources)
        if "ec2:TerminateInstances" in statement.actions
    ]
    assert ending
    for statement in ending:
        assert statement.conditions == {
            "StringEquals": {f"aws:ResourceTag/{OWNER_TAG}": "Reservoir"}
        }


def test_who_reads_what_strangers_write_ends_nothing(resources: Resources) -> None:
    ending = {
        statement.policy.partition("Role")[0]
        for statement in statements(resources)
        if "ec2:TerminateInstances" in statement.actions
    }
    assert ending == {
        "Provision",
        "Launch",
        "React",
        "Expire",
        "Disrupt",
        "Collect",
        "Operate",
    }, "neither Intake nor Follow"


def test_reservations_are_never_bought_changed_or_cancelled(resources: Resources) -> None:
    actions = {
        action for statement in statements(resources) for action in statement.actions
    }
    assert (
        {
            action
            for action in actions
            if "CapacityReservation" in action or "CapacityBlock" in action
        }
        == {
            "ec2:DescribeCapacityBlockStatus",
            "ec2:DescribeCapacityBlocks",
            "ec2:CreateCapacityReservationBySplitting",  # of what is tagged for it
            "ec2:CreateInterruptibleCapacityReservationAllocation",  # the same, by a tag of its own
            "ec2:UpdateInterruptibleCapacityReservationAllocation",
            "ec2:DescribeCapacityReservationTopology",
            "ec2:DescribeCapacityReservations",
            "ec2:MoveCapacityReservationInstances",  # only where both are tagged for it
        }
    )
    assert not any("Purchase" in action for action in actions)
    of_people = {
        action
        for statement in statements(resources, for_people=True)
        for action in statement.actions
    }
    assert not any("Purchase" in action for action in of_people), (
        "whoever may buy has the right from somebody else"
    )
    # it would end the instances of an instant fleet
    assert "ec2:DeleteFleets" not in actions


def test_no_function_reads_secrets(resources: Resources) -> None:
    """Neither a secret of Secrets Manager nor, without a key to decrypt it, one of SSM."""
    actions = {
        action for statement in statements(resources) for action in statement.actions
    }
    assert {
        action for action in actions if action.split(":")[0] in ("secretsmanager", "kms")
    } == set()


def test_each_function_has_its_own_role_without_managed_policies(
    resources: Resources,
) -> None:
    functions = of_type(resources, "AWS::Lambda::Function")
    roles = [properties["Role"]["Fn::GetAtt"][0] for properties in functions.values()]
    assert len(functions) == len(Function)
    assert len(set(roles)) == len(roles)
    for role in of_type(resources, "AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role


def test_roles_are_handed_to_the_named_services_only(resources: Resources) -> None:
    passing = [
        statement
        for statement in statements(resources)
        if "iam:PassRole" in statement.actions
    ]
    assert {
        service
        for s in passing
        for service in [s.conditions["StringEquals"]["iam:PassedToService"]]
    } == {
        "ec2.amazonaws.com",
        "scheduler.amazonaws.com",
    }


def test_only_this_groups_schedules_may_take_the_timers_role(resources: Resources) -> None:
    roles = of_type(resources, "AWS::IAM::Role")
    (trust,) = (
        role["AssumeRolePolicyDocument"]["Statement"][0]
        for name, role in roles.items()
        if name.startswith("DrainTimers")
    )
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert set(trust["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}


def test_every_function_may_do_what_its_name_promises(resources: Resources) -> None:
    """A change of the permission table that empties a role would pass the tests above."""
    held = {output_name(function): set[str]() for function in Function}
    for statement in statements(resources):
        for function in held:
            if statement.policy.startswith(f"{function}Role"):
                held[function] |= set(statement.actions)
    record = held.pop("Record")
    assert all(
        "dynamodb:GetItem" in actions and "sqs:SendMessage" in actions
        for actions in held.values()
    )
    assert {
        name for name, actions in held.items() if "events:PutEvents" not in actions
    } == {"DiscoverOfferings"}
    assert {
        action
        for action in record
        if action.startswith(("dynamodb:", "events:")) and action not in READ
    } == {
        "dynamodb:BatchWriteItem",  # the history
        *WRITE,  # the accounts
        "dynamodb:Scan",
        "events:PutEvents",
    }
    assert "pricing:GetProducts" in held["DiscoverOfferings"]
    assert "ec2:DescribeCapacityReservations" in held["DiscoverReservations"]
    assert "s3:PutObject" in held["Provision"]
    assert "scheduler:CreateSchedule" in held["DiscoverReservations"]


def test_policies_for_people_name_actions_and_resources_and_change_nothing_but_what_they_say(
    resources: Resources,
) -> None:
    changing: dict[str, set[str]] = {}
    for statement in statements(resources, for_people=True):
        assert not any("*" in action for action in statement.actions), statement
        if "*" in statement.resources:
            assert "aws:RequestedRegion" in statement.condition_keys, statement
            assert all(READING.fullmatch(action) for action in statement.actions), statement
        person = changing.setdefault(statement.policy.removeprefix("People")[:-8], set())
        person |= {action for action in statement.actions if not READING.fullmatch(action)}
    assert changing == {
        "Sender": {"sqs:SendMessage"},
        "Viewer": {"dynamodb:Scan"},
        "Operator": {
            *("events:EnableRule", "lambda:InvokeFunction"),
            *(
                "sqs:CancelMessageMoveTask",
                "sqs:DeleteMessage",
                "sqs:PurgeQueue",
                "sqs:ReceiveMessage",
            ),
            *("sqs:SendMessage", "sqs:StartMessageMoveTask"),
        },
        "TeamOperator": {"lambda:InvokeFunction"},
        "Node": {"sqs:SendMessage"},
        "NodeLogs": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


def test_what_is_scanned_are_indexes_of_revisions_and_never_tables(
    resources: Resources,
) -> None:
    scanning = [
        statement
        for for_people in (False, True)
        for statement in statements(resources, for_people=for_people)
        if "dynamodb:Scan" in statement.actions
    ]
    assert len(scanning) == len(Function) - 3 + 1, "functions that list claims, and viewers"
    for statement in scanning:
        assert {
            arn.rpartition("/index/")[2] for arn in statement.resources
        } <= READ_WHOLE, statement


def test_nodes_read_the_index_of_identities_alone_and_there_their_own_row(
    resources: Resources,
) -> None:
    of_nodes = [
        statement
        for statement in statements(resources, for_people=True)
        if statement.policy.startswith("PeopleNode")
    ]
    (reading,) = [
        statement for statement in of_nodes if statement.actions == ("dynamodb:Query",)
    ]
    assert [arn.rpartition("/")[2] for arn in reading.resources] == [IDENTITY_INDEX]
    assert reading.conditions == {
        "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["${ec2:SourceInstanceARN}"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def test_policy_is_changed_by_two_functions_and_others_keep_to_a_kind_of_rows(
    resources: Resources,
) -> None:
    writing = [
        statement
        for statement in statements(resources)
        if {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
        & set(statement.actions)
        and any(arn.startswith("<StatePolicy") for arn in statement.resources)
    ]
    held = {(statement.sid, *_rows(statement.conditions)) for statement in writing}
    assert held == {
        ("WriteState",),
        ("NoteClasses", "EC2NodeClass/*"),
        ("NotePools", "NodePool/*"),
        ("PausePools", "NodePool/*"),
        ("MarkTables", MARK_ROW),
    }
    whole = [statement.policy for statement in writing if statement.sid == "WriteState"]
    assert [policy.partition("Role")[0] for policy in whole] == ["Apply", "ChangePolicy"]
    updating = [
        statement
        for statement in writing
        if statement.sid in ("NoteClasses", "NotePools", "PausePools")
    ]
    assert all(statement.actions == ("dynamodb:UpdateItem",) for statement in updating)
    attributes = {
        statement.sid: statement.conditions["ForAllValues:StringEquals"]
        for statement in updating
    }
    status = {"dynamodb:Attributes": ["id", "status", "laterConditions", "listing"]}
    assert attributes == {
        "NoteClasses": status,
        "NotePools": status,
        "PausePools": {"dynamodb:Attributes": ["id", "status", "pause", "listing"]},
    }, "no manifest, and nothing by which an object is found"
    assert all(
        statement.conditions["Null"]
        == {"dynamodb:LeadingKeys": "false", "dynamodb:Attributes": "false"}
        for statement in updating
    )


def _rows(conditions: Mapping[str, Any]) -> list[str]:
    """Return the rows to which a statement is held."""
    named = [
        each["dynamodb:LeadingKeys"]
        for operator, each in conditions.items()
        if operator.startswith("ForAll") and "dynamodb:LeadingKeys" in each
    ]
    return [row for rows in named for row in rows]


def test_people_write_no_row_and_publish_no_fact(resources: Resources) -> None:
    writing = {
        "dynamodb:DeleteItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "events:PutEvents",
    }
    for statement in statements(resources, for_people=True):
        assert not writing & set(statement.actions), statement


def test_operators_call_the_functions_that_know_who_asks_and_no_other(
    resources: Resources,
) -> None:
    called = {
        arn.rpartition(":")[2]
        for statement in statements(resources, for_people=True)
        if "lambda:InvokeFunction" in statement.actions
        for arn in statement.resources
    }
    knowing = (Function.CHANGE_POLICY, Function.OPERATE)
    assert called == {function_name(DEFAULT_STACK, function) for function in knowing}


@pytest.mark.parametrize("example", ["buy-capacity.json", "change-reservations.json"])
def test_the_rights_to_buy_publish_purchases_and_no_other_fact(example: str) -> None:
    """They are nobody's by themselves: an administrator attaches them (docs/buying.md)."""
    rights = json.loads((ROOT / "examples" / "iam" / example).read_text(encoding="utf-8"))
    publishing = [
        each for each in rights["Statement"] if "events:PutEvents" in each["Action"]
    ]
    (statement,) = publishing
    assert statement["Condition"] == {
        "StringEquals": {
            "events:source": "reservoir",
            "events:detail-type": "Capacity Purchased",
        }
    }


def test_a_teams_operator_may_ask_operate_and_nothing_else(resources: Resources) -> None:
    own = [
        each
        for each in statements(resources, for_people=True)
        if each.policy.startswith("PeopleTeamOperator")
    ]
    assert [(each.actions, len(each.resources)) for each in own] == [
        (("lambda:InvokeFunction",), 1)
    ]
    assert "operate" in own[0].resources[0]
