"""The shipped service control policy: only the role of ``launch`` sets or takes off the tags that endings go by."""

import json
from fnmatch import fnmatchcase

from infra.app import ROOT
from reservoir.names import BATCH_TAG, OWNER_TAG
from tests.infra.reading import Resources, of_type

POLICY = ROOT / "examples" / "iam" / "keep-owner-tag.json"


def test_the_policy_spares_the_role_of_launch_alone(resources: Resources) -> None:
    (statement,) = json.loads(POLICY.read_text())["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"]["ForAnyValue:StringEquals"] == {
        "aws:TagKeys": [OWNER_TAG, BATCH_TAG]
    }
    spared = statement["Condition"]["ArnNotLike"]["aws:PrincipalArn"].rpartition("/")[2]
    # CloudFormation names a role after its stack and its logical id.
    names = {
        f"Reservoir-{name}-ABCDEFGHIJKL" for name in of_type(resources, "AWS::IAM::Role")
    }
    assert [name for name in names if fnmatchcase(name, spared)] == [
        name for name in names if name.startswith("Reservoir-LaunchRole")
    ]
    assert len([name for name in names if fnmatchcase(name, spared)]) == 1
