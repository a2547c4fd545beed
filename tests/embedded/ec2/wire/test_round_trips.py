"""What goes over EC2's wire: botocore reads what we write, and we read what botocore writes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.model import ListShape, OperationModel, Shape, StructureShape
from botocore.parsers import EC2QueryParser as AnswerParser
from botocore.serialize import EC2Serializer as RequestSerializer
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from lab.embedded.ec2.wire.answers import AnswerWriter
from lab.embedded.ec2.wire.questions import QuestionReader

MODEL = get_session().get_service_model("ec2")
WRITER, READER = AnswerWriter(), QuestionReader()
DEEPEST = 5  # below this a value has scalars only; some shapes contain themselves
# as XML allows it
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    # Hypothesis wants bounds without a zone, and gives the zone itself.
    "timestamp": st.datetimes(
        datetime(1970, 1, 2),  # noqa: DTZ001 - Hypothesis wants it so
        datetime(2100, 1, 1),  # noqa: DTZ001 - Hypothesis wants it so
        timezones=st.just(UTC),
    ).map(lambda instant: instant.replace(microsecond=0)),
    "blob": st.binary(min_size=1, max_size=20),
}


@st.composite
def values(draw: st.DrawFn, shape: Shape, depth: int = 0) -> Any:
    """Draw a value of a shape: a few of its members, lists of one to three items."""
    if isinstance(shape, StructureShape):
        names = [
            name
            for name, member in shape.members.items()
            if depth < DEEPEST or is_scalar(member)
        ]
        chosen = (
            draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
            if names
            else []
        )
        return {name: draw(values(shape.members[name], depth + 1)) for name in chosen}
    if isinstance(shape, ListShape):
        return draw(st.lists(values(shape.member, depth + 1), min_size=1, max_size=3))
    return draw(SCALARS[shape.type_name])


def is_scalar(shape: Shape) -> bool:
    return not isinstance(shape, StructureShape | ListShape)


def operations(attribute: str) -> st.SearchStrategy[tuple[OperationModel, StructureShape]]:
    """Choose an operation and its shape under ``attribute``."""
    models = [MODEL.operation_model(name) for name in MODEL.operation_names]
    both = [(model, getattr(model, attribute)) for model in models]
    return st.sampled_from([(model, shape) for model, shape in both if shape is not None])


def has_empty(value: Any) -> bool:
    """Whether a value contains an empty structure, which the query protocol cannot carry."""
    if isinstance(value, dict):
        return not value or any(map(has_empty, value.values()))
    return isinstance(value, list) and any(map(has_empty, value))


@given(data=st.data())
def test_botocore_reads_every_answer_that_is_written(data: st.DataObject) -> None:
    model, shape = data.draw(operations("output_shape"))
    result = data.draw(values(shape))
    body = WRITER.write(model, result, "request-1")
    response = {"status_code": 200, "headers": {}, "body": body}
    parsed = AnswerParser().parse(response, shape)
    metadata = parsed.pop("ResponseMetadata")
    assert metadata["RequestId"] == "request-1"
    assert parsed == result


@given(data=st.data())
def test_every_request_that_botocore_writes_is_read(data: st.DataObject) -> None:
    model, shape = data.draw(operations("input_shape"))
    parameters = data.draw(values(shape).filter(lambda drawn: not has_empty(drawn)))
    body: dict[str, Any] = RequestSerializer().serialize_to_request(parameters, model)[
        "body"
    ]
    sent = {
        name: str(value)
        for name, value in body.items()
        if name not in ("Action", "Version")
    }
    assert READER.read(sent, shape) == (parameters, set())


@pytest.mark.parametrize(
    "name",
    [
        "InstanceIds.1",  # the member's name, not the wire's
        "InstanceId.2",  # without a first one
        "InstanceId.01",
        "InstanceId.0",
        "InstanceId.1.Extra",
        "Filter",
        "Filter.1",
        "Filter.1.Values.1",
        "Filter.1.Name.1",
        "MaxResults.1",
        "",
        ".",
        "InstanceId..1",
        "A" + ".A" * 10_000,
    ],
)
def test_names_that_lead_nowhere_are_unknown(name: str) -> None:
    shape = MODEL.operation_model("DescribeInstances").input_shape
    parameters, unknown = READER.read({"MaxResults": "5", name: "x"}, shape)
    assert parameters == {"MaxResults": 5}
    assert unknown == {name}


def test_what_follows_a_gap_in_a_list_is_unknown() -> None:
    shape = MODEL.operation_model("DescribeInstances").input_shape
    parameters, unknown = READER.read({"InstanceId.1": "i-1", "InstanceId.3": "i-3"}, shape)
    assert parameters == {"InstanceIds": ["i-1"]}
    assert unknown == {"InstanceId.3"}


def test_texts_are_escaped() -> None:
    body = WRITER.write(
        MODEL.operation_model("DescribeTags"), {"NextToken": "<a&b>"}, "<id>"
    ).decode()
    assert "<nextToken>&lt;a&amp;b&gt;</nextToken>" in body
    assert "<requestId>&lt;id&gt;</requestId>" in body


@pytest.mark.parametrize(
    "result",
    [
        {"Reservation": []},
        {"Reservations": {}},
        {"Reservations": ["r-1"]},
        {"Reservations": [{"Instances": [{"InstanceId": 5}]}]},
        {"Reservations": [{"Instances": [{"LaunchTime": "now"}]}]},
        {"Reservations": [{"Instances": [{"EbsOptimized": "true"}]}]},
        {"Reservations": [{"Instances": [{"AmiLaunchIndex": "0"}]}]},
    ],
)
def test_a_result_that_does_not_fit_the_model_is_not_written(
    result: dict[str, Any],
) -> None:
    with pytest.raises(AssertionError, match="does not fit the EC2 model"):
        WRITER.write(MODEL.operation_model("DescribeInstances"), result, "request-1")


def test_members_without_a_value_are_left_out() -> None:
    body = WRITER.write(
        MODEL.operation_model("DescribeTags"), {"NextToken": None, "Tags": []}, "id"
    ).decode()
    assert "nextToken" not in body
    assert "<tagSet></tagSet>" in body
