"""Functions run as on AWS: under the runtime client, on their role, within their timeout, by the emulated clock."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.embedded.conftest import Resources, allow, until, zipped

pytestmark = pytest.mark.embedded

RECORD = """
    import boto3, datetime, os
    dynamodb = boto3.client("dynamodb")
    def handle(event, context):
        for record in event["Records"]:
            now = datetime.datetime.now(datetime.UTC).isoformat()
            dynamodb.put_item(TableName=os.environ["TABLE"], Item={"id": {"S": record["body"]}, "at": {"S": now}})
        return {"batchItemFailures": []}
"""


def test_a_message_on_a_queue_becomes_a_row_that_its_function_wrote(
    resources: Resources,
) -> None:
    table, (url, arn) = resources.table(), resources.queue()
    function = resources.function(RECORD, allow("dynamodb:PutItem"), TABLE=table)
    resources.feed(function, arn)
    resources.sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": str(number), "MessageBody": f"message {number}"} for number in range(10)
        ],
    )
    until(lambda: len(resources.items(table)) == 10)
    called = {
        (request["service"], request["operation"])
        for request in resources.aws.requests(function)
    }
    assert called == {("dynamodb", "PutItem")}


def test_a_function_sees_the_emulated_time_and_has_its_real_time_to_work(
    resources: Resources,
) -> None:
    function = resources.function(
        """
        import datetime, time
        def handle(event, context):
            now = datetime.datetime.now(datetime.UTC).isoformat()
            return [now, time.time(), context.get_remaining_time_in_millis()]
        """,
        timeout_s=600,
    )
    for _ in range(2):  # a cold and a warm environment
        before = resources.aws.clock.advance(timedelta(days=3))
        (now, epoch_s, remaining_ms), failed = resources.invoke(function, {})
        assert not failed
        assert before <= datetime.fromisoformat(now) <= resources.aws.clock.now()
        assert before <= datetime.fromtimestamp(epoch_s, UTC) <= resources.aws.clock.now()
        assert 0 < remaining_ms <= 600_000


def test_a_function_that_exceeds_its_timeout_is_killed_and_fails(
    resources: Resources,
) -> None:
    function = resources.function(
        "import time\ndef handle(event, context): time.sleep(event)", timeout_s=1
    )
    answer, failed = resources.invoke(function, 600)
    assert failed
    assert answer["errorType"] == "Sandbox.Timedout"
    assert "Task timed out after 1.00 seconds" in resources.aws.function_log(function)
    resources.lambda_.update_function_configuration(FunctionName=function, Timeout=300)
    # a new environment serves the next invocation
    assert resources.invoke(function, 0) == (None, False)


def test_a_function_that_ends_its_process_fails_and_the_next_one_runs(
    resources: Resources,
) -> None:
    function = resources.function(
        "import os\ndef handle(event, context): return os._exit(event) if event else os.getpid()"
    )
    answer, failed = resources.invoke(function, 3)
    assert failed
    assert answer["errorMessage"].endswith("Runtime exited with error: exit status 3")
    first, second = resources.invoke(function, 0), resources.invoke(function, 0)
    assert first == second  # a warm environment is used again
    assert not first[1]


def test_an_exception_is_reported_as_the_runtime_client_does(resources: Resources) -> None:
    function = resources.function("def handle(event, context): raise KeyError(event)")
    answer, failed = resources.invoke(function, "name")
    assert failed
    assert (answer["errorType"], answer["errorMessage"]) == ("KeyError", "'name'")
    assert "handler.py" in answer["stackTrace"][0]


def test_a_module_that_cannot_be_imported_fails_the_invocation(
    resources: Resources,
) -> None:
    function = resources.function("import moto\ndef handle(event, context): pass")
    answer, failed = resources.invoke(function, {})
    assert failed
    # moto is installed here, and not on Lambda
    assert answer["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'moto'" in resources.aws.function_log(function)


def test_what_a_function_prints_is_in_cloudwatch_logs(resources: Resources) -> None:
    function = resources.function(
        """
        import logging
        def handle(event, context):
            print("seen", event, context.aws_request_id)
            logging.getLogger().warning("logged %s", event)
        """
    )
    assert resources.invoke(function, "it") == (None, False)
    logs = resources.aws.client("logs")
    group = f"/aws/lambda/{function}"
    streams = logs.describe_log_streams(logGroupName=group)["logStreams"]
    lines = [
        event["message"]
        for stream in streams
        for event in logs.get_log_events(
            logGroupName=group, logStreamName=stream["logStreamName"]
        )["events"]
    ]
    assert any(line.startswith("seen it ") for line in lines)
    year = resources.aws.clock.now().year
    assert any(re.match(rf"\[WARNING\]\t{year}-.*\tlogged it", line) for line in lines)


def test_a_function_may_do_only_what_its_role_allows(resources: Resources) -> None:
    table = resources.table()
    function = resources.function(
        """
        import boto3
        def handle(event, context):
            return boto3.client("dynamodb").scan(TableName=event)["Count"]
        """,
        allow("dynamodb:GetItem"),
    )
    answer, failed = resources.invoke(function, table)
    assert failed
    assert "AccessDeniedException" in answer["errorMessage"]
    assert f":assumed-role/{'role'}-" in answer["errorMessage"]


MEET = """
    import os, pathlib, tempfile, time
    def handle(event, context):
        meeting = pathlib.Path(tempfile.gettempdir(), event["meeting"])
        meeting.mkdir(exist_ok=True)
        (meeting / str(os.getpid())).touch()
        while len(list(meeting.iterdir())) < event["count"]:
            time.sleep(0.05)
        return os.getpid()
"""


def test_invocations_that_overlap_have_environments_of_their_own(
    resources: Resources,
) -> None:
    function = resources.function(MEET, timeout_s=300)
    with ThreadPoolExecutor(3) as pool:
        pids = list(
            pool.map(
                lambda _: resources.invoke(function, {"meeting": "three", "count": 3})[0],
                range(3),
            )
        )
    assert len(set(pids)) == 3
    assert resources.invoke(function, {"meeting": "one", "count": 1})[0] in pids


def test_changed_code_is_what_runs_next(resources: Resources) -> None:
    function = resources.function("def handle(event, context): return 'old'")
    assert resources.invoke(function, {}) == ("old", False)
    resources.lambda_.update_function_code(
        FunctionName=function, ZipFile=zipped("def handle(event, context): return 'new'")
    )
    assert resources.invoke(function, {}) == ("new", False)
