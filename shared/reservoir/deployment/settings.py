"""The settings file of a deployment, field by field."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from reservoir.deployment.ending_bounds import EndingBounds
from reservoir.deployment.partitions import unserved
from reservoir.manifests.parsing.fields import Price, broken, matching, micro_usd
from reservoir.manifests.parsing.model import Contradiction, Model, text_in

# Function names append up to 22 of 64 characters to the stack's name.
_STACK_PATTERN: Final = "[A-Za-z][A-Za-z0-9-]{0,39}"
# Every role that matches may be handed to instances; IAM would take a short prefix literally.
_ROLE_PATTERN: Final = r"[\w+=,.@/-]{3,}\*?"
_PARAMETER_PATTERN: Final = r"(/[\w.-]+)+(/\*)?"
_KEY_PATTERN: Final = r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[\w-]{1,256}"
_SUBNET_PATTERN: Final = "subnet-[0-9a-f]{8,17}"
_SECURITY_GROUP_PATTERN: Final = "sg-[0-9a-f]{8,17}"
# https://docs.aws.amazon.com/lambda/latest/api/API_VpcConfig.html
_SUBNETS_MAX: Final = 16
_SECURITY_GROUPS_MAX: Final = 5
_TOPIC_PATTERN: Final = r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[\w-]{1,256}"
# It is a variable of a function, which share 4 KB.
_OTLP_PATTERN: Final = r"https?://[\w.-]{1,80}(:[0-9]{1,5})?(/[\w.-]{1,20})?"
_POLICY_PATTERN: Final = r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]{1,512}"
# IAM's and EC2's rules for tags are the strictest of all; DynamoDB and SQS take what these take.
_TAG_KEY_PATTERN: Final = (
    r"(?!(?i:aws:|karpenter\.|reservoir:|reservoir/))[\w .:/=+@-]{1,128}"
)
_TAG_VALUE_PATTERN: Final = r"[\w .:/=+@-]{0,256}"
# They go into variables of a function, which share 4 KB, and EC2 allows 50 a resource together with a class's own.
_TAGS_MAX: Final = 10
_TAGS_MAX_CHARACTERS: Final = 250
# The numbers of days that CloudWatch Logs knows.
LOG_RETENTION_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
_OBJECT_PATTERN: Final = r"(NodePool|EC2NodeClass|Team)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
# A node is charged with less than 1,000 USD an hour beside its price; more is a mistake in the unit.
_OVERHEAD_MAX_MICRO_USD: Final = 1_000_000_000
# The planner's time-out is 90 s; reading, checking and committing need the rest.
_SOLVE_BUDGET_MAX_S: Final = 45
_NOTICE_MAX_S: Final = 7 * 24 * 3600
_HISTORY_MAX_DAYS: Final = 400


def _text(pattern: str, sentence: str) -> tuple[Any, Any]:
    return AfterValidator(matching("form", pattern, sentence)), Field(
        json_schema_extra={"pattern": f"^{pattern}$"}
    )


def _of_a_served_partition(region: str) -> str:
    reason = unserved(region)
    if reason is not None:
        raise broken("partition", f"is not supported: {reason}")
    return region


StackName = Annotated[
    str,
    *_text(_STACK_PATTERN, "must be a letter, then at most 39 letters, digits and hyphens"),
]
AccountId = Annotated[str, *_text("[0-9]{12}", "must be the 12 digits of an account")]
Region = Annotated[
    str,
    *_text("[a-z]{2,}(-[a-z]+)+-[0-9]+", "must be a region such as us-east-1"),
    AfterValidator(_of_a_served_partition),
]
RolePattern = Annotated[
    str,
    *_text(
        _ROLE_PATTERN,
        "must be a role's name (with its path), or at least 3 characters of one and a final *",
    ),
]
ParameterPattern = Annotated[
    str, *_text(_PARAMETER_PATTERN, "must be a parameter's path, or one with a final /*")
]
KeyArn = Annotated[
    str, *_text(_KEY_PATTERN, "must be the ARN of a KMS key (…:key/…), not of an alias")
]
SubnetId = Annotated[str, *_text(_SUBNET_PATTERN, "must be the id of a subnet")]
SecurityGroupId = Annotated[
    str, *_text(_SECURITY_GROUP_PATTERN, "must be the id of a security group")
]
OtlpEndpoint = Annotated[
    str,
    *_text(
        _OTLP_PATTERN,
        "must be a URL such as https://otlp.example.com:4318, without a query",
    ),
]
TopicArn = Annotated[str, *_text(_TOPIC_PATTERN, "must be the ARN of a standard SNS topic")]
PolicyArn = Annotated[str, *_text(_POLICY_PATTERN, "must be the ARN of an IAM policy")]
Qualifier = Annotated[
    str, *_text("[a-z0-9]{1,10}", "must be at most 10 small letters and digits")
]
TagKey = Annotated[
    str,
    *_text(
        _TAG_KEY_PATTERN,
        "must be a tag's key that is not Reservoir's, Karpenter's or AWS's",
    ),
]
TagValue = Annotated[
    str, *_text(_TAG_VALUE_PATTERN, "must be a tag's value of at most 256 characters")
]
TableName = Annotated[
    str, *_text(r"[A-Za-z0-9_.-]{3,255}", "must be the name of a DynamoDB table")
]
PolicyName = Annotated[
    str, *_text(_OBJECT_PATTERN, "must be NodePool/NAME, EC2NodeClass/NAME or Team/NAME")
]


class AdoptedTables(Model):
    """Existing tables, by name: restored ones, or those that an earlier stack left."""

    reservations: TableName | None = None
    offerings: TableName | None = None
    workloads: TableName | None = None
    node_claims: TableName | None = None
    policy: TableName | None = None
    decisions: TableName | None = None
    history: TableName | None = None
    accounts: TableName | None = None


class FunctionNetwork(Model):
    """Where the functions run: in subnets of one VPC, behind security groups of it."""

    subnets: list[SubnetId] = Field(
        min_length=1,
        max_length=_SUBNETS_MAX,
        description="Subnets without addresses of the internet, in two zones or more if one may fail.",
    )
    security_groups: list[SecurityGroupId] = Field(
        min_length=1,
        max_length=_SECURITY_GROUPS_MAX,
        description="Security groups that let HTTPS out.",
    )


class DeploymentSettings(Model):
    """One deployment's choices. The file's name is its own: ``deployments/production.yaml`` is ``production``."""

    stack: StackName | None = Field(
        default=None,
        description="Name of the CloudFormation stack; every resource name and the owner tag follow it."
        " Left out, it is `Reservoir-` and the deployment's name.",
    )
    account: AccountId | None = Field(
        default=None,
        description="The account that this deployment belongs to; with credentials of another nothing runs.",
    )
    region: Region | None = Field(
        default=None, description="The region; left out, that of your AWS settings."
    )
    manifests: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of YAML manifests that each deployment applies, relative to this file.",
    )
    removed: list[PolicyName] = Field(
        default_factory=list,
        description="Policy that a deployment deletes, and with a NodePool its nodes: `NodePool/NAME`,"
        " `EC2NodeClass/NAME`, `Team/NAME`. Nothing else deletes policy: what only leaves the folder stays.",
    )
    retain: bool = Field(
        default=True,
        description="Keep the tables, the bucket, the demand queue and the logs when the stack is deleted, and"
        " protect the tables from deletion.",
    )
    tables: AdoptedTables = Field(
        default_factory=AdoptedTables,
        description="Tables that the stack adopts instead of making its own: restored ones, or those that an earlier"
        " stack left. Nothing but you deletes them.",
    )
    termination_protection: bool = Field(
        default=True,
        description="Refuse to delete the stack until this is false and deployed.",
    )
    permissions_boundary: PolicyArn | None = Field(
        default=None,
        description="ARN of the IAM policy that bounds every role of the stack, where an account demands one. What it"
        " must allow is in docs/deploying.md.",
    )
    tags: dict[TagKey, TagValue] = Field(
        default_factory=dict,
        description="Tags of everything that takes tags: the stack's resources, and what is launched (instances,"
        " volumes, interfaces, launch templates), unless an EC2NodeClass says another value.",
    )
    bootstrap_qualifier: Qualifier | None = Field(
        default=None,
        description="The qualifier of the CDK's bootstrap in this account, where it is not the CDK's own; `reservoir"
        " deployment bootstrap` makes it.",
    )
    vpc: FunctionNetwork | None = Field(
        default=None,
        description="Subnets and security groups in which the functions run, where an account demands a VPC. The"
        " endpoints that they need are in docs/deploying.md.",
    )
    log_retention_days: int = Field(
        default=30,
        description="How long the functions' logs are kept, in days: a number that CloudWatch Logs knows.",
    )
    instance_role: RolePattern | None = Field(
        default=None,
        description="Role name, or name pattern, that launches may hand to instances; nothing else can be passed."
        " Left out, it is the one role `reservoir-`, the deployment's name, `-node`.",
    )
    image_parameters: ParameterPattern = Field(
        default="/images/*",
        description="SSM parameters, beside AWS's public ones, that classes may take their image from.",
    )
    kms_keys: list[KeyArn] = Field(
        default_factory=list,
        description="ARNs of customer managed KMS keys that launches may encrypt volumes with, beside AWS's own key of"
        " EBS. The keys' own policies must let the launch role (the stack's output `LaunchRoleArn`) use them.",
    )
    encryption_key: KeyArn | None = Field(
        default=None,
        description="ARN of a customer managed KMS key of the stack's region that encrypts what the deployment stores:"
        " tables, queues, bucket, logs, and the functions' variables. What its own policy must allow is in"
        " docs/deploying.md.",
    )
    metadata_http_tokens: Literal["required", "optional"] = Field(
        default="required",
        description="Whether instances must read their metadata by token (IMDSv2), which EC2 then enforces at every"
        " launch, or each EC2NodeClass may choose.",
    )
    rebalance_policy: Literal["ignore", "launch-before-drain"] = Field(
        default="ignore",
        description="What a Spot rebalance recommendation does: nothing, or the node's replicas are demand at once,"
        " and it goes when they have left, or after the usual 15 minutes.",
    )
    instance_status_policy: Literal["replace", "report"] = Field(
        default="replace",
        description="What failed status checks and planned maintenance do: replace the node, or only report it.",
    )
    alarm_topic: TopicArn | None = Field(
        default=None,
        description="ARN of a standard SNS topic in the stack's region: every alarm tells it when it goes off and when"
        " it is over. CloudWatch cannot reach a topic that is encrypted with AWS's own key (`alias/aws/sns`).",
    )
    reserve_concurrency: bool = Field(
        default=False,
        description="Keep 13 of the account's concurrent executions for discovery, reactions, drains, disruption and"
        " collection, so that neighbours cannot take all of it. Lambda refuses to leave less than 100 for everybody"
        " else: the account needs a limit of at least 113 (new accounts may have 10, and the deployment then fails).",
    )
    spot_service_linked_role: bool = Field(
        default=False,
        description="Let `make deploy` create `AWSServiceRoleForEC2Spot` where the account has none, which is so until"
        " somebody uses Spot there. It is the account's: it stays when the stack goes.",
    )
    preference_policy: Literal["Respect", "Ignore"] = Field(
        default="Respect",
        description="Whether preferences of workloads count until they must be given up, or not at all;"
        " Karpenter's setting.",
    )
    min_values_policy: Literal["Strict", "BestEffort"] = Field(
        default="Strict",
        description="Whether a pool's `minValues` must be met, or only as far as possible; Karpenter's setting.",
    )
    no_duration_policy: Literal["Place", "Avoid"] = Field(
        default="Place",
        description="Whether work that says no `duration` may run in a Capacity Block and be warned before its end.",
    )
    spot_to_spot_consolidation: bool = Field(
        default=False,
        description="Whether consolidation may replace spot nodes by cheaper spot nodes; Karpenter's feature gate. A"
        " single node needs 15 cheaper types to choose from even then.",
    )
    spot_pool_share_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=100,
        description="How much of a plan's spot nodes (from ten on) one spot pool, a type in a zone, may hold; 100 is no"
        " bound. Replicas beyond that go to other spot pools or on demand if they may, and wait as `SpotShare`"
        " otherwise.",
    )
    reserved_floor_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Replicas that use less than this part of a reserved slot leave it alone when they can be bought"
        " elsewhere (as limits and topology are).",
    )
    node_overhead_micro_usd_per_hour: Annotated[
        int, Field(ge=0, le=_OVERHEAD_MAX_MICRO_USD)
    ] = Field(
        default=2_000,
        description="What a node costs beside its price (root volume, agents, API calls), in millionths of a USD an"
        " hour: the dearer, the fewer and larger the nodes.",
    )
    solve_budget_s: Annotated[int, Field(ge=1, le=_SOLVE_BUDGET_MAX_S)] = Field(
        default=10,
        description="How long a plan may be improved, in seconds; the first plan is complete long before.",
    )

    ceiling_usd_per_hour: Price | None = Field(
        default=None,
        description="What everything that is bought (spot and on demand) may cost an hour, whoever it is for. Reserved"
        " use is never held back.",
    )
    ceiling_usd_per_month: Price | None = Field(
        default=None,
        description="The same for a month (UTC): nothing is bought that what is left of it could not pay for an hour,"
        " beside what runs.",
    )
    purchase_ceiling_usd: Price | None = Field(
        default=None,
        description="What one purchase of capacity may cost that somebody makes with `reservoir blocks`. Without this"
        " and the next nobody can buy; no function can in any case.",
    )
    purchase_ceiling_usd_per_month: Price | None = Field(
        default=None, description="What all such purchases of a month (UTC) may cost."
    )
    history_days: Annotated[int, Field(ge=1, le=_HISTORY_MAX_DAYS)] = Field(
        default=14,
        description="How many days the history is kept: what `reservoir events`, `describe` and `report` tell.",
    )
    publish_metrics: bool = Field(
        default=False,
        description="Publish what is measured every ten minutes as metrics of CloudWatch, to alarm on. They cost 0.30"
        " USD a month each: 1.50 for a reservation, of which the 20 that lie idle most dearly are published. The log"
        " and the dashboard have them anyway.",
    )
    otlp_endpoint: OtlpEndpoint | None = Field(
        default=None,
        description="Push what is measured every ten minutes to this receiver, by OTLP over HTTP (`/v1/metrics` is"
        " added): the gauges of `reservoir metrics`. Headers, such as a key, are read from the parameter"
        " `/reservoir/STACK/otlp-headers` of Systems Manager, and are sent over https alone.",
    )
    tracing: bool = Field(
        default=False,
        description="Trace the functions with AWS X-Ray. Passes that find nothing to do are traced too: about 1 USD a"
        " month while nothing happens.",
    )
    longest_notice_s: Annotated[int, Field(ge=0, le=_NOTICE_MAX_S)] = Field(
        default=7_200,
        description="How much notice work gets at most before its node goes, in seconds, whatever its"
        " `checkpointPeriod` asks for. A Team may have less: `limits.checkpointPeriod`.",
    )
    ending_bounds: EndingBounds = Field(
        default_factory=EndingBounds,
        description="How many nodes may end within an hour, by kind of ending; what is left out has the default.",
    )

    @property
    def ceiling_micro_usd_per_hour(self) -> int | None:
        """The ceiling of an hour; None: there is none."""
        if self.ceiling_usd_per_hour is None:
            return None
        return micro_usd(self.ceiling_usd_per_hour)

    @property
    def ceiling_micro_usd_per_month(self) -> int | None:
        """The ceiling of a month; None: there is none."""
        if self.ceiling_usd_per_month is None:
            return None
        return micro_usd(self.ceiling_usd_per_month)

    @property
    def purchase_ceiling_micro_usd(self) -> int | None:
        """The ceiling of one purchase; None: nothing may be bought."""
        if self.purchase_ceiling_usd is None:
            return None
        return micro_usd(self.purchase_ceiling_usd)

    @property
    def purchase_ceiling_micro_usd_per_month(self) -> int | None:
        """The ceiling of all purchases of a month; None: nothing may be bought."""
        if self.purchase_ceiling_usd_per_month is None:
            return None
        return micro_usd(self.purchase_ceiling_usd_per_month)

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse an instance role that is every role, and what AWS has no room or no number for."""
        if text_in(raw, "instanceRole").lstrip("/").startswith("*"):
            yield Contradiction("instanceRole", "form", "must not begin with *")
        if raw.get("logRetentionDays", 30) not in LOG_RETENTION_DAYS:
            known = ", ".join(map(str, LOG_RETENTION_DAYS))
            yield Contradiction("logRetentionDays", "form", f"must be one of {known}")
        tags = raw.get("tags")
        if isinstance(tags, Mapping):
            yield from _excessive(tags)


def _excessive(tags: Mapping[Any, Any]) -> Iterator[Contradiction]:
    characters = sum(len(str(key)) + len(str(value)) for key, value in tags.items())
    if len(tags) > _TAGS_MAX or characters > _TAGS_MAX_CHARACTERS:
        yield Contradiction(
            "tags",
            "size",
            f"may be {_TAGS_MAX}, of {_TAGS_MAX_CHARACTERS} characters together: EC2 and Lambda have limits",
        )
