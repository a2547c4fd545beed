"""As much of AWS's command line as tutorials type: ``aws SERVICE OPERATION --option value …``.

Values of structures and lists are JSON; ``--query`` and ``--output text`` are understood.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import boto3.session
import jmespath
from botocore import xform_name


def main(arguments: Sequence[str]) -> None:
    """Call the operation and print its answer."""
    service, operation, *rest = arguments
    client: Any = boto3.session.Session().client(service)  # type: ignore[call-overload] # any service
    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(
        client.meta.method_to_api_mapping[method]
    ).input_shape
    members = {
        xform_name(name).replace("_", "-"): (name, member.type_name)
        for name, member in shape.members.items()
    }
    options = dict(
        zip((word.removeprefix("--") for word in rest[::2]), rest[1::2], strict=True)
    )
    query, form = options.pop("query", None), options.pop("output", "json")
    given: dict[str, Any] = {}
    for option, value in options.items():
        name, kind = members[option]
        given[name] = value if kind in ("string", "timestamp") else json.loads(value)
    answer = getattr(client, method)(**given)
    answer.pop("ResponseMetadata", None)
    found = answer if query is None else jmespath.search(query, answer)
    if form == "text":
        rows = found if isinstance(found, list) else [found]
        # A command prints.
        print(  # noqa: T201 - as the AWS CLI
            "\n".join(
                "\t".join(map(str, row)) if isinstance(row, list) else str(row)
                for row in rows
            )
        )
    else:
        print(json.dumps(found, indent=4, default=str))  # noqa: T201 - a command prints


if __name__ == "__main__":
    main(sys.argv[1:])
