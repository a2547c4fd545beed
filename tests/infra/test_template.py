import re
from typing import Any

import pytest

from infra.assets.bundle import UNZIPPED_LIMIT_MIB
from infra.config import FUNCTIONS
from infra.iam.acknowledgements import as_reported
from infra.safety import safety_environment
from infra.scheduling import planner_environment
from reservoir import names
from reservoir.deployment.settings import DeploymentSettings
from reservoir.names import Function, Queue, Table, output_name
from tests.infra.reading import Resources, as_list, of_type
from tests.infra.synthesis import NAME


def queue_policies(resources: Resources) -> dict[str, list[dict[str, Any]]]:
    return {
        queue["Ref"]: properties["PolicyDocument"]["Statement"]
        for properties in of_type(resources, "AWS::SQS::QueuePolicy").values()
        for queue in properties["Queues"]
    }


def test_every_queue_is_encrypted_and_closed_to_plain_connections(
    resources: Resources,
) -> None:
    queues = of_type(resources, "AWS::SQS::Queue")
    assert len(queues) == 2 * len(Queue) + 2  # the undelivered, and the unpublished
    for name, properties in queues.items():
        assert properties["SqsManagedSseEnabled"] is True
        assert {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "sqs:*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            "Resource": {"Fn::GetAtt": [name, "Arn"]},
        } in queue_policies(resources)[name]


def test_every_working_queue_has_dead_letters_and_hides_messages_long_enough(
    resources: Resources,
) -> None:
    working = {
        name: properties
        for name, properties in of_type(resources, "AWS::SQS::Queue").items()
        if "RedrivePolicy" in properties
    }
    unpublished = working.pop(next(name for name in working if "Unpublished" in name))
    assert (
        unpublished["RedrivePolicy"]["maxReceiveCount"] == 1_000
    )  # the most that SQS takes
    assert len(working) == len(Queue)
    for mapping in of_type(resources, "AWS::Lambda::EventSourceMapping").values():
        queue = working[mapping["EventSourceArn"]["Fn::GetAtt"][0]]
        function = resources[mapping["FunctionName"]["Ref"]]["Properties"]
        is_of_reactions = function["Handler"].startswith("functions.react.")
        assert queue["RedrivePolicy"]["maxReceiveCount"] == (10 if is_of_reactions else 5)
        # A failed planning pass must not hold up its message group for long, and a notice is worth two minutes; to
        # repeat either is harmless.
        hurries = queue.get("FifoQueue") or is_of_reactions
        assert queue["VisibilityTimeout"] == (1 if hurries else 6) * function["Timeout"]
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["ScalingConfig"]["MaximumConcurrency"] >= 2


def test_services_send_only_through_the_rules_of_this_stack(resources: Resources) -> None:
    rules = {f"<{name}.Arn>" for name in of_type(resources, "AWS::Events::Rule")}
    sending = [
        statement
        for policy in queue_policies(resources).values()
        for statement in policy
        if statement["Effect"] == "Allow"
    ]
    assert sending
    for statement in sending:
        assert statement["Principal"] == {"Service": "events.amazonaws.com"}
        # of what could not be delivered: test_alarms says which rules
        if "ArnLike" in statement["Condition"]:
            assert as_reported(statement["Resource"]).startswith("<QueuesUndelivered")
            continue
        sources = as_list(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
        assert {as_reported(source) for source in sources} <= rules
    for permission in of_type(resources, "AWS::Lambda::Permission").values():
        assert permission["Principal"] == "events.amazonaws.com"
        assert as_reported(permission["SourceArn"]) in rules


def test_nobody_but_an_instance_puts_reports_into_the_queue(resources: Resources) -> None:
    (reports,) = (
        name
        for name in of_type(resources, "AWS::SQS::Queue")
        if re.fullmatch("QueuesReports[0-9A-F]{8}", name)
    )
    (denial,) = (
        s
        for s in queue_policies(resources)[reports]
        if s.get("Sid") == "NobodyButInstances"
    )
    assert (denial["Effect"], denial["Principal"], denial["Action"]) == (
        "Deny",
        {"AWS": "*"},
        "sqs:SendMessage",
    )
    assert denial["Condition"] == {"Null": {"ec2:SourceInstanceARN": "true"}}


def test_nobody_but_rules_and_four_functions_puts_reactions_into_the_queue(
    resources: Resources,
) -> None:
    """No other role with ``sqs:*`` nor an administrator: a denial of the queue's own stands above what they may."""
    (reactions,) = (
        name
        for name in of_type(resources, "AWS::SQS::Queue")
        if re.fullmatch("QueuesReactions[0-9A-F]{8}", name)
    )
    sending = queue_policies(resources)[reactions]
    (denial,) = (statement for statement in sending if statement.get("Sid") == "NobodyElse")
    assert (denial["Effect"], denial["Principal"], denial["Action"]) == (
        "Deny",
        {"AWS": "*"},
        "sqs:SendMessage",
    )
    allowed = {
        as_reported(source)
        for statement in sending
        if statement["Effect"] == "Allow"
        for source in as_list(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
    }
    assert denial["Condition"].keys() == {"ArnNotEquals"}
    assert denial["Condition"]["ArnNotEquals"].keys() == {
        "aws:SourceArn",
        "aws:PrincipalArn",
    }
    roles = {
        role["Fn::GetAtt"][0]
        for role in denial["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
    }
    assert sorted(
        re.sub("FunctionRole[0-9A-F]*|Role[0-9A-F]*", "", role) for role in roles
    ) == ["Expire", "Follow", "Intake", "React"]
    assert {
        as_reported(arn) for arn in denial["Condition"]["ArnNotEquals"]["aws:SourceArn"]
    } == allowed


@pytest.mark.parametrize("table", Table)
def test_tables_are_as_the_names_module_promises(
    resources: Resources, table: Table
) -> None:
    (properties,) = (
        properties
        for name, properties in of_type(resources, "AWS::DynamoDB::Table").items()
        if name.startswith(f"State{output_name(table.name)}")
    )
    assert [
        (key["AttributeName"], key["KeyType"]) for key in properties["KeySchema"]
    ] == list(zip(names.key_attributes(table), ("HASH", "RANGE"), strict=False))
    assert properties["TimeToLiveSpecification"] == {
        "AttributeName": names.TTL_ATTRIBUTE,
        "Enabled": True,
    }
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["DeletionProtectionEnabled"] is True
    assert (
        properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    )
    expected = (
        {}
        if table in (Table.HISTORY, Table.ACCOUNTS)
        else {names.LISTING_INDEX: (names.LISTING_KEY, "ALL")}
    )
    if table is Table.NODE_CLAIMS:
        expected = {
            names.INSTANCE_INDEX: (names.INSTANCE_KEY, "KEYS_ONLY"),
            names.LEASE_INDEX: (names.LEASE_KEY, "KEYS_ONLY"),
            names.IDENTITY_INDEX: (names.IDENTITY_KEY, "INCLUDE"),
            names.LIVE_REVISIONS_INDEX: (names.KEY, "INCLUDE"),
        }
    if table is Table.WORKLOADS:
        expected = dict.fromkeys(
            (names.PLACED_REVISIONS_INDEX, names.WAITING_REVISIONS_INDEX),
            (names.KEY, "INCLUDE"),
        )
    assert {
        index["IndexName"]: (
            index["KeySchema"][0]["AttributeName"],
            index["Projection"]["ProjectionType"],
        )
        for index in properties.get("GlobalSecondaryIndexes", ())
    } == expected
    indexes = properties.get("GlobalSecondaryIndexes", ())
    sparse = {
        names.LIVE_REVISIONS_INDEX: names.LISTING_KEY,
        names.WAITING_REVISIONS_INDEX: names.LISTING_KEY,
        names.PLACED_REVISIONS_INDEX: names.PLACED_KEY,
    }
    for index in indexes:
        assert index["KeySchema"][1]["AttributeName"] == sparse.get(
            index["IndexName"], names.KEY
        )
        if index["IndexName"] in sparse:
            assert index["Projection"]["NonKeyAttributes"] == ["revision"], (
                "whatever else a row has is not paid for"
            )


def test_state_survives_the_stack(resources: Resources) -> None:
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket"):
        kept = [resource for resource in resources.values() if resource["Type"] == kind]
        assert kept
        assert all(
            resource["DeletionPolicy"] == "RetainExceptOnCreate" for resource in kept
        )


def test_what_is_kept_is_kept_by_no_create_that_fails_and_has_no_chosen_name(
    resources: Resources,
) -> None:
    """Else the next create of this name would meet it: CloudFormation makes nothing that exists already."""
    policies = {resource.get("DeletionPolicy", "Delete") for resource in resources.values()}
    assert policies == {"Delete", "RetainExceptOnCreate"}
    for resource in resources.values():
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
            for field in ("BucketName", "LogGroupName", "Name", "TableName"):
                assert field not in resource["Properties"]
            # the bucket's own name is in it
            assert isinstance(resource["Properties"].get("QueueName", {}), dict)


def test_the_bucket_is_private_encrypted_and_forgets(resources: Resources) -> None:
    ((_, bucket),) = of_type(resources, "AWS::S3::Bucket").items()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert bucket["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] == 30
    ((_, policy),) = of_type(resources, "AWS::S3::BucketPolicy").items()
    assert any(
        statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["PolicyDocument"]["Statement"]
    )


def test_functions_run_arm_with_structured_logs_that_end(resources: Resources) -> None:
    for properties in of_type(resources, "AWS::Lambda::Function").values():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert properties["LoggingConfig"]["LogFormat"] == "JSON"
        log_group = resources[properties["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
        assert log_group["RetentionInDays"] == 30
        assert "LogGroupName" not in log_group, (
            "a log that is kept would be in the way of the next stack"
        )


def test_functions_get_every_variable_that_the_names_module_names(
    resources: Resources,
) -> None:
    promised = {
        *Table,
        *Queue,
        names.DEMAND_DEAD_LETTER_QUEUE,
        names.EVENT_BUS,
        names.SNAPSHOTS_BUCKET,
        names.DRAIN_SCHEDULE_GROUP,
        names.DRAIN_SCHEDULE_ROLE_ARN,
        names.DRAIN_SCHEDULE_TARGET_ARN,
        names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN,
        names.DEPLOYMENT,
        names.INSTANCE_ARN_PREFIX,
    }
    for properties in of_type(resources, "AWS::Lambda::Function").values():
        variables = properties["Environment"]["Variables"]
        assert promised <= set(variables)
        assert variables[names.DEPLOYMENT] == "Reservoir"


def test_outputs_carry_the_variables_for_the_command_line(
    template: dict[str, Any], resources: Resources
) -> None:
    variables = next(iter(of_type(resources, "AWS::Lambda::Function").values()))[
        "Environment"
    ]["Variables"]
    settings = DeploymentSettings()
    of_history = {names.HISTORY_DAYS: "14", names.PUBLISH_METRICS: "false"}
    of_functions_alone = (
        planner_environment(settings) | safety_environment(settings) | of_history
    )
    assert template["Outputs"][names.DEPLOYMENT_NAME_OUTPUT]["Value"] == NAME
    for variable, value in variables.items():
        if not variable.startswith("POWERTOOLS_") and variable not in of_functions_alone:
            assert template["Outputs"][output_name(variable)]["Value"] == value


def test_one_asset_holds_all_code(resources: Resources) -> None:
    codes = [
        properties["Code"]["S3Key"]
        for properties in of_type(resources, "AWS::Lambda::Function").values()
    ]
    assert len(set(codes)) == 1
    assert UNZIPPED_LIMIT_MIB == 250


def test_timers_wake_the_expire_function(resources: Resources) -> None:
    functions = of_type(resources, "AWS::Lambda::Function")
    variables = next(iter(functions.values()))["Environment"]["Variables"]
    name = as_reported(variables[names.DRAIN_SCHEDULE_TARGET_ARN]).rsplit(":", 1)[1]
    (handler,) = (f["Handler"] for f in functions.values() if f["FunctionName"] == name)
    assert handler == f"functions.{Function.EXPIRE}.handler.handler"


def _scheduled(name: str, resources: Resources) -> str:
    """Return the handler that a schedule calls, or the queue that it writes to."""
    return str(resources[name]["Properties"].get("Handler", name[:-8]))


def test_schedules_are_those_of_the_settings(resources: Resources) -> None:
    scheduled = {
        as_reported(target["Arn"]): properties["ScheduleExpression"]
        for properties in of_type(resources, "AWS::Events::Rule").values()
        if "ScheduleExpression" in properties
        for target in properties["Targets"]
    }
    by_function = {
        _scheduled(arn.strip("<>").split(".")[0], resources): rate
        for arn, rate in scheduled.items()
    }
    assert by_function == {
        "functions.discover_reservations.handler.handler": "rate(1 minute)",
        "functions.discover_offerings.handler.handler": "rate(12 hours)",
        "functions.expire.handler.handler": "rate(1 minute)",
        "functions.disrupt.handler.handler": "rate(1 minute)",
        "functions.collect.handler.handler": "rate(5 minutes)",
        "QueuesPlanning": "rate(1 minute)",
        "QueuesHistory": "rate(10 minutes)",
    }
    assert {
        f for f in Function if FUNCTIONS[f].every_min and FUNCTIONS[f].queue is None
    } == {
        Function(handler.split(".")[1])
        for handler in by_function
        if handler.startswith("functions")
    }


def test_what_happens_to_reservations_wakes_discovery_which_alone_wakes_the_planner_for_it(
    resources: Resources,
) -> None:
    woken = {
        str(properties["EventPattern"]): {
            as_reported(target["Arn"]).strip("<>").split(".")[0] for target in targets
        }
        for properties in of_type(resources, "AWS::Events::Rule").values()
        if (targets := properties["Targets"]) and "EventPattern" in properties
    }
    about = {pattern: them for pattern, them in woken.items() if "Capacity" in pattern}
    assert len(about) == 6
    for pattern, targets in about.items():
        handlers = {resources[name]["Properties"].get("Handler") for name in targets}
        assert "functions.discover_reservations.handler.handler" in handlers, pattern


def test_a_finished_deployment_discovers_what_can_be_bought_and_marks_its_tables(
    resources: Resources,
) -> None:
    (rule,) = (
        properties
        for properties in of_type(resources, "AWS::Events::Rule").values()
        if properties.get("EventPattern", {}).get("source") == ["aws.cloudformation"]
    )
    (prefix,) = rule["EventPattern"]["detail"]["stack-id"]
    assert as_reported(prefix["prefix"]).endswith(":stack/Reservoir/")
    woken = {
        resources[target["Arn"]["Fn::GetAtt"][0]]["Properties"]["Handler"]
        for target in rule["Targets"]
    }
    assert woken == {
        "functions.discover_offerings.handler.handler",
        "functions.collect.handler.handler",
    }
