"""The CDK's template as one that anybody can deploy: names and choices are parameters, assets lie where these say.

The stack is synthesised under names that occur nowhere else; wherever one of them stands, CloudFormation puts the
stack's name, or a parameter, in its place. What is a variable of the functions alone is a parameter of its own. Choices
that decide which resources there are, or what is in a policy, are those of the release, but for those of
``infra.release.choices``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.release import choices
from reservoir import names
from reservoir.names import output_name

Json = Any
STACK: Final = "StackNameOfTheRelease"  # as long as the settings allow a stack's name to be
ROLE: Final = "InstanceRoleOfTheRelease"
TOPIC: Final = "arn:aws:sns:us-east-1:123456789012:AlarmTopicOfTheRelease"
# Of the deployment that the release is synthesised from.
SETTINGS: Final[Mapping[str, object]] = {
    "stack": STACK,
    "instanceRole": ROLE,
    "alarmTopic": TOPIC,
}
SETTINGS_NAME: Final = "release"

_BUCKET, _PREFIX = "AssetBucket", "AssetPrefix"
_ROLE_PARAMETER = "InstanceRole"
_TOPIC_PARAMETER = "AlarmTopic"
_HAS_TOPIC = "HasAlarmTopic"
_PROTECT_PARAMETER, _PROTECTS = "ProtectTables", "TablesAreProtected"
_ACTIONS: Final = ("AlarmActions", "OKActions", "InsufficientDataActions")
_PLACEHOLDERS: Final = {
    STACK: "${AWS::StackName}",
    ROLE: f"${{{_ROLE_PARAMETER}}}",
    **{text: f"${{{name}}}" for text, name in choices.PARAMETERS.items()},
}
_KEY_PATTERN: Final = r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[\w-]{1,256}"
_SUBNET_PATTERN: Final = "subnet-[0-9a-f]{8,17}"
_GROUP_PATTERN: Final = "sg-[0-9a-f]{8,17}"
_OTLP_PATTERN: Final = r"https?://[\w.-]{1,80}(:[0-9]{1,5})?(/[\w.-]{1,20})?"
_NUMBER: Final = "[0-9]{1,10}"
_CEILING: Final = "none|[0-9]{1,15}"
_HASH: Final = re.compile("(?:[0-9A-F]{8})+$")
_REFERENCE: Final = re.compile(r"\$\{([^!}]+)\}")
_NOTHING: Final[Json] = {"Ref": "AWS::NoValue"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the template. ``default`` None: it must be given."""

    name: str
    description: str
    default: str | None = None
    pattern: str | None = None
    allowed: tuple[str, ...] = ()

    def document(self) -> Json:
        """Return it in CloudFormation's form."""
        found: dict[str, Json] = {"Type": "String", "Description": self.description}
        if self.default is not None:
            found["Default"] = self.default
        if self.pattern is not None:
            found["AllowedPattern"] = self.pattern
        if self.allowed:
            found["AllowedValues"] = list(self.allowed)
        return found


_YES_OR_NO: Final = ("false", "true")
# By the variable of the functions that carries it; what it means is in the reference of the settings file.
_OF_VARIABLES: Final[Mapping[str, tuple[str, tuple[str, ...], str | None]]] = {
    names.PREFERENCE_POLICY: ("preferencePolicy", ("Respect", "Ignore"), None),
    names.MIN_VALUES_POLICY: ("minValuesPolicy", ("Strict", "BestEffort"), None),
    names.NO_DURATION_POLICY: ("noDurationPolicy", ("Place", "Avoid"), None),
    names.SPOT_TO_SPOT_CONSOLIDATION: ("spotToSpotConsolidation", _YES_OR_NO, None),
    names.SPOT_POOL_SHARE_PERCENT: ("spotPoolSharePercent", (), "[1-9][0-9]?|100"),
    names.RESERVED_FLOOR_PERCENT: ("reservedFloorPercent", (), "[0-9]|[1-9][0-9]|100"),
    names.NODE_OVERHEAD_MICRO_USD_PER_HOUR: ("nodeOverheadMicroUsdPerHour", (), _NUMBER),
    names.SOLVE_BUDGET_S: ("solveBudgetS", (), "[1-9]|[1-3][0-9]|4[0-5]"),
    names.CEILING_MICRO_USD_PER_HOUR: (
        "ceilingUsdPerHour, in millionths of a USD",
        (),
        _CEILING,
    ),
    names.CEILING_MICRO_USD_PER_MONTH: (
        "ceilingUsdPerMonth, in millionths of a USD",
        (),
        _CEILING,
    ),
    names.HISTORY_DAYS: ("historyDays", (), "[1-9][0-9]{0,2}"),
    names.LONGEST_NOTICE_S: ("longestNoticeS", (), _NUMBER),
    names.INSTANCE_STATUS_POLICY: ("instanceStatusPolicy", ("replace", "report"), None),
    names.PUBLISH_METRICS: ("publishMetrics", _YES_OR_NO, None),
    names.LAUNCH_TAGS: ("tags, as JSON, of what is launched", (), r"\{.*\}"),
}


def released(
    template: Mapping[str, Json], chosen: Mapping[str, Json], assets: Mapping[str, str]
) -> dict[str, Json]:
    """Return the template of the release, with what ``chosen`` has more under conditions.

    ``assets`` are the names of files by the keys that the CDK gave them.
    """
    template = choices.merged(without_name(template, STACK), without_name(chosen, STACK))
    defaults = _variables_of(template["Resources"])
    parameters = {each.name: each.document() for each in _parameters(defaults)}
    resources = {
        logical_id: _resource(resource, assets)
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] != "AWS::CDK::Metadata"
    }
    outputs = {
        name: _output(name, output) for name, output in template.get("Outputs", {}).items()
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Reservoir {names.VERSION}: demand onto EC2 capacity reservations first",
        "Parameters": parameters,
        "Conditions": {
            _HAS_TOPIC: {"Fn::Not": [{"Fn::Equals": [{"Ref": _TOPIC_PARAMETER}, ""]}]},
            _PROTECTS: {"Fn::Equals": [{"Ref": _PROTECT_PARAMETER}, "true"]},
            **{
                condition: {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, ""]}]}
                for condition, parameter in choices.CONDITIONS.items()
            },
        },
        "Resources": resources,
        "Outputs": outputs,
    }


def without_name(template: Mapping[str, Json], stack: str) -> Mapping[str, Json]:
    """Return a template whose logical ids do not have the stack's name in them, nor the hashes that come of that."""
    text = json.dumps(template)
    for logical_id in template["Resources"]:
        if stack in logical_id:
            text = text.replace(
                f'"{logical_id}"', f'"{_HASH.sub("", logical_id.replace(stack, ""))}"'
            )
    found: Mapping[str, Json] = json.loads(text)
    if len(found["Resources"]) != len(template["Resources"]):
        message = "logical ids differ by the stack's name alone"
        raise ValueError(message)
    return found


def _parameters(defaults: Mapping[str, str]) -> Iterator[Parameter]:
    yield Parameter(
        _BUCKET,
        "The bucket of this region that holds the files of assets/.",
        pattern="[a-z0-9.-]{3,63}",
    )
    yield Parameter(
        _PREFIX,
        "What stands before their names there, such as reservoir/0.2.0/.",
        "",
        "([\\w.-]+/)*",
    )
    role = "The role, or a pattern of roles with * at its end, that launches may hand to instances."
    yield Parameter(_ROLE_PARAMETER, role, pattern=r"[\w+=,.@/-]{3,}\*?")
    topic = "The ARN of the SNS topic that alarms tell; empty: they tell nobody."
    yield Parameter(
        _TOPIC_PARAMETER,
        topic,
        "",
        r"|arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[\w-]{1,256}",
    )
    protect = "Whether tables cannot be deleted; true once the stack stands, because a create that fails deletes them."
    yield Parameter(_PROTECT_PARAMETER, protect, "false", allowed=_YES_OR_NO)
    yield from _parameters_of_choices()
    for variable, (setting, allowed, pattern) in _OF_VARIABLES.items():
        description = f"As the setting {setting} of a deployment by the CDK."
        yield Parameter(
            output_name(variable), description, defaults[variable], pattern, allowed
        )


def _parameters_of_choices() -> Iterator[Parameter]:
    boundary = "The ARN of the policy that bounds every role; empty: none does."
    policy = r"|arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]{1,512}"
    yield Parameter(choices.PARAMETERS[choices.BOUNDARY], boundary, "", policy)
    key = "The ARN of the KMS key that encrypts what is stored; empty: AWS's own keys do."
    yield Parameter(choices.PARAMETERS[choices.KEY], key, "", f"|{_KEY_PATTERN}")
    volumes = (
        "ARNs of KMS keys that launches may encrypt volumes with, with commas between them."
    )
    yield Parameter(
        choices.PARAMETERS[choices.VOLUME_KEYS], volumes, "", _several(_KEY_PATTERN)
    )
    endpoint = "The receiver of figures by OTLP over HTTP; empty: they are pushed nowhere."
    yield Parameter(choices.PARAMETERS[choices.OTLP], endpoint, "", f"|{_OTLP_PATTERN}")
    subnets = "Subnets that the functions run in, with commas between them; empty: in no VPC of yours."
    yield Parameter(
        choices.PARAMETERS[choices.SUBNETS], subnets, "", _several(_SUBNET_PATTERN)
    )
    groups = "Security groups of the functions there, with commas between them."
    yield Parameter(
        choices.PARAMETERS[choices.SECURITY_GROUPS], groups, "", _several(_GROUP_PATTERN)
    )


def _several(pattern: str) -> str:
    return f"|{pattern}(,{pattern})*"


def _variables_of(resources: Mapping[str, Json]) -> dict[str, str]:
    """Return the values of the variables that are parameters, as the CDK gave them."""
    found: dict[str, str] = {}
    for resource in resources.values():
        if resource["Type"] == "AWS::Lambda::Function":
            variables = resource["Properties"].get("Environment", {}).get("Variables", {})
            found |= {
                name: value for name, value in variables.items() if name in _OF_VARIABLES
            }
    return found


def _resource(resource: Json, assets: Mapping[str, str]) -> Json:
    properties = dict(resource.get("Properties", {}))
    kind = resource["Type"]
    if kind == "AWS::Lambda::Function":
        properties["Code"] = _asset(properties["Code"], assets)
        variables = dict(properties.get("Environment", {}).get("Variables", {}))
        for name in variables.keys() & _OF_VARIABLES.keys():
            variables[name] = {"Ref": output_name(name)}
        properties["Environment"] = {"Variables": variables}
    elif kind == "AWS::Lambda::LayerVersion":
        properties["Content"] = _asset(properties["Content"], assets)
    elif kind == "AWS::DynamoDB::Table":
        properties["DeletionProtectionEnabled"] = {"Fn::If": [_PROTECTS, True, False]}
    elif kind == "AWS::CloudWatch::Alarm":
        told = {
            "Fn::If": [_HAS_TOPIC, [{"Ref": _TOPIC_PARAMETER}], {"Ref": "AWS::NoValue"}]
        }
        properties |= {name: told for name in _ACTIONS if properties.get(name) == [TOPIC]}
    kept = {
        name: value
        for name, value in resource.items()
        if name not in ("Metadata", "Properties")
    }
    return {**kept, "Properties": _substituted(properties)}


def _asset(place: Json, assets: Mapping[str, str]) -> Json:
    return {
        "S3Bucket": {"Ref": _BUCKET},
        "S3Key": {"Fn::Sub": f"${{{_PREFIX}}}{assets[place['S3Key']]}"},
    }


def _output(name: str, output: Json) -> Json:
    variable = next((each for each in _OF_VARIABLES if output_name(each) == name), None)
    if variable is not None:
        return {**output, "Value": {"Ref": name}}
    if name == names.DEPLOYMENT_NAME_OUTPUT:
        return {**output, "Value": {"Ref": "AWS::StackName"}}
    return {**output, "Value": _substituted(output["Value"])}


def _substituted(value: Json) -> Json:
    """Return a value with the names of the release as CloudFormation fills them in."""
    if isinstance(value, str):
        return _filled(value, value.replace("${", "${!"))
    if isinstance(value, list):
        if len(value) == 1 and value[0] in choices.LISTS:
            return _split(value[0])
        return [_substituted(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("Resource") in choices.LISTS:  # the CDK writes one as itself
        value = {**value, "Resource": [value["Resource"]]}
    if set(value) == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
        filled = _filled(value["Fn::Sub"], value["Fn::Sub"])
        return filled if isinstance(filled, dict) else value
    for key in value:
        if any(placeholder in key for placeholder in (*_PLACEHOLDERS, TOPIC)):
            message = f"{key} is a key, which CloudFormation does not fill in"
            raise ValueError(message)
    return {key: _substituted(each) for key, each in value.items()}


def _split(placeholder: str) -> Json:
    return {"Fn::Split": [",", {"Ref": choices.PARAMETERS[placeholder]}]}


def _filled(text: str, escaped: str) -> Json:
    if TOPIC in text:
        message = f"the topic stands where no alarm is: {text[:100]}"
        raise ValueError(message)
    if not any(placeholder in text for placeholder in _PLACEHOLDERS):
        return text
    for placeholder, reference in _PLACEHOLDERS.items():
        escaped = escaped.replace(placeholder, reference)
    whole = _REFERENCE.fullmatch(escaped)
    return {"Fn::Sub": escaped} if whole is None else {"Ref": whole[1]}


def deployed_as(
    template: Mapping[str, Json], stack: str, parameters: Mapping[str, str]
) -> dict[str, Json]:
    """Return the resources as CloudFormation would make them under a name, with the parameters filled in."""
    values = {
        name: each.get("Default", "") for name, each in template["Parameters"].items()
    }
    values |= {**parameters, "AWS::StackName": stack}
    made = {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if "Condition" not in resource or values[choices.CONDITIONS[resource["Condition"]]]
    }
    return {
        logical_id: _made(resource, made, values) for logical_id, resource in made.items()
    }


def _made(
    resource: Json, made: Mapping[str, Json], values: Mapping[str, str]
) -> dict[str, Json]:
    """Return a resource with what it waits for, of what is made."""
    found = {
        key: _resolved(value, values)
        for key, value in resource.items()
        if key not in ("Condition", "DependsOn")
    }
    waits = [each for each in resource.get("DependsOn", ()) if each in made]
    return {**found, "DependsOn": waits} if waits else found


def _resolved(value: Json, values: Mapping[str, str]) -> Json:
    if isinstance(value, list):
        listed = [_resolved(each, values) for each in value]
        return [each for each in listed if each != _NOTHING]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Fn::Split"}:
        separator, text = value["Fn::Split"]
        several = str(_resolved(text, values)).split(separator)
        return several[0] if len(several) == 1 else several
    if set(value) == {"Ref"} and value["Ref"] in values:
        return values[value["Ref"]]
    if set(value) == {"Fn::If"}:
        condition, holds, fails = value["Fn::If"]
        is_so = {
            _HAS_TOPIC: values[_TOPIC_PARAMETER] != "",
            _PROTECTS: values[_PROTECT_PARAMETER] == "true",
            **{name: bool(values[it]) for name, it in choices.CONDITIONS.items()},
        }
        return _resolved(holds if is_so[condition] else fails, values)
    if set(value) == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
        text = _REFERENCE.sub(
            lambda found: values.get(found[1], found[0]), value["Fn::Sub"]
        )
        return {"Fn::Sub": text} if _REFERENCE.search(text) else text.replace("${!", "${")
    parts = {key: _resolved(each, values) for key, each in value.items()}
    return {key: each for key, each in parts.items() if each != _NOTHING}
