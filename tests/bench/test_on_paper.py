"""What the benches on paper count."""

from lab.bench.on_paper import CriticalPath


def test_calls_side_by_side_count_once_for_whoever_waits_for_them() -> None:
    path = CriticalPath(ends_with="ec2.CreateFleet")

    def calls(*operations: str) -> None:
        for operation in operations:
            path.begins(operation)

    path.begins("dynamodb.Query")
    short, long = (
        path.submit(calls, "dynamodb.GetItem"),
        path.submit(calls, "sqs.SendMessage", "dynamodb.GetItem"),
    )
    path.submit(calls, "s3.PutObject")  # nobody waits for it
    short.result()
    long.result()
    path.begins("dynamodb.TransactWriteItems")
    path.begins("ec2.CreateFleet")
    path.begins("sqs.SendMessage")

    assert path.found is not None
    assert (path.found.calls, path.found.aws_ms) == (4, 8 + 20 + 8 + 16)
