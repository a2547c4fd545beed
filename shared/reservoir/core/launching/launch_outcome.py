"""The outcome of one launch attempt: instances to assign to its claims, and refusals to react to.

Everything here is a function of the recorded request and the recorded outcome, so that a function that was killed, or a
message that came twice, arrives at the same assignment and the same reactions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.capacity.unavailable_offerings import Market, SubnetKey, quota_group
from reservoir.core.launching.launch_request import LaunchOverride, LaunchRequest
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey


class LaunchErrorKind(StrEnum):
    """What a refusal means; EC2's codes are sorted into these by the EC2 adapter."""

    INSUFFICIENT_CAPACITY = "InsufficientCapacity"  # this pool is empty now
    RESERVATION_EXHAUSTED = "ReservationExhausted"  # this reservation has no free unit
    RESERVATION_UNUSABLE = "ReservationUnusable"  # gone, unshared or not started
    # the account's vCPU limit for a group of families in the market
    QUOTA = "QuotaExceeded"
    TYPE_QUOTA = "InstanceQuotaExceeded"  # the account's limit for one instance type
    SUBNET_FULL = "SubnetFull"
    UNSUPPORTED = "Unsupported"  # not sold in this zone
    SPOT_NOT_PERMITTED = "SpotNotPermitted"  # Spot's service-linked role is missing
    TEMPLATE_MISSING = "LaunchTemplateMissing"  # deleted under us
    CONFIGURATION = "Configuration"  # the class asks for something that does not work
    PERMISSION = "Permission"  # we may not
    TRANSIENT = "Transient"  # throttled or an internal error: no sign of missing capacity
    UNKNOWN = "Unknown"  # an unknown code


# A full subnet is no sign of missing capacity: the next attempt uses another one.
_RETRIED: Final = frozenset(
    {
        LaunchErrorKind.TRANSIENT,
        LaunchErrorKind.TEMPLATE_MISSING,
        LaunchErrorKind.UNKNOWN,
        LaunchErrorKind.SUBNET_FULL,
    }
)
# An unknown code may be a passing problem. When this many attempts failed with it, the offering rests as after a
# shortage, longer each time, so that other offerings serve and EC2 is not asked for ever.
UNKNOWN_ATTEMPTS_MAX: Final = 3
# The same holds for a problem of EC2's own that names a pool: repeated for one pool, it would keep other types and
# markets from serving (aws/karpenter-provider-aws 9616). A problem of the whole call concerns no pool, and throttling
# never does, even where it names one.
TROUBLE_OF_A_POOL: Final = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "ServiceUnavailable",
        "Unavailable",
    }
)
# EC2 checks whether we may use a launch template before it checks whether the template exists: a template that was
# deleted, or is not visible yet, is refused as if it belonged to another account. So when the whole first call is
# refused, it is repeated once from templates that were made again, before it counts as a lack of permission.
TEMPLATE_DOUBTED_ATTEMPTS: Final = 1
_PAUSED: Final = frozenset({LaunchErrorKind.TRANSIENT, LaunchErrorKind.UNKNOWN})
_BLOCKING: Final = frozenset({LaunchErrorKind.CONFIGURATION, LaunchErrorKind.PERMISSION})
# What a class asks for does not work in a pool of one kind (an image on an old type, a type in a zone) although others
# go on. Where EC2 refuses pools of so many families alike, they have little in common but the class and the market:
# the class rests on that market. The class is to blame, on every market, only where EC2 names no pool.
_FAMILIES_ALIKE: Final = 3
# Here the code itself blames the class, or the account: what is missing is missing in every pool, whichever EC2 names.
# The meanings are those of EC2's list of error codes
# (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html).
OF_THE_CLASS: Final = frozenset(
    {
        "AccountDisabled",
        "AuthFailure",  # an image that its owner does not share with us
        "Blocked",
        "CustomerKeyHasBeenRevoked",
        "InvalidAMIID.Malformed",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidGroup.NotFound",
        "InvalidGroupId.Malformed",
        "InvalidIamInstanceProfileArn.Malformed",
        "InvalidKey.Format",
        "InvalidKeyPair.Format",
        "InvalidKeyPair.NotFound",
        "InvalidPlacementGroup.Unknown",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSnapshot.NotFound",
        "InvalidSnapshotID.Malformed",
        "InvalidTagKey.Malformed",
        "InvalidUserData.Malformed",
        # a product of the Marketplace that the account has not subscribed to
        "OptInRequired",
        "PendingVerification",
        "SecurityGroupsPerInstanceLimitExceeded",
        "TagLimitExceeded",
        "UnknownVolumeType",
        "VolumeLimitExceeded",
    }
)
# A reservation that cannot be launched into rests until its next observation, a minute at most; the offerings outside
# it are not touched.
_RESTS_RESERVATION: Final = frozenset(
    {
        LaunchErrorKind.INSUFFICIENT_CAPACITY,
        LaunchErrorKind.RESERVATION_EXHAUSTED,
        LaunchErrorKind.RESERVATION_UNUSABLE,
        LaunchErrorKind.QUOTA,
        LaunchErrorKind.TYPE_QUOTA,
        LaunchErrorKind.UNSUPPORTED,
    }
)
_MOMENT: Final = timedelta(milliseconds=1)  # no observation begins so soon after another
_RESTS_OFFERING: Final = frozenset({LaunchErrorKind.INSUFFICIENT_CAPACITY})


@dataclass(frozen=True, slots=True)
class LaunchedInstance:
    """An instance that the attempt brought. ``launched_at``: EC2's own time, where it was read back."""

    id: str
    instance_type: str
    zone: str
    zone_id: str
    subnet_id: str | None = None
    image_id: str | None = None
    launched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LaunchError:
    """A refusal. Parts that EC2 did not name are None and stand for every pool of the request."""

    kind: LaunchErrorKind
    code: str  # EC2's own
    instance_type: str | None = None
    zone_id: str | None = None
    subnet_id: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The answer of one attempt. ``adopted``: found by tag long after the call, whose own answer was lost."""

    instances: tuple[LaunchedInstance, ...] = ()
    errors: tuple[LaunchError, ...] = ()
    launched_at: datetime | None = None
    adopted: bool = False

    @property
    def is_throttled(self) -> bool:
        """Whether EC2 refused for no other reason than that it is asked too often."""
        return bool(self.errors) and all(
            error.kind is LaunchErrorKind.TRANSIENT and error.code not in TROUBLE_OF_A_POOL
            for error in self.errors
        )

    def without(self, instance_ids: Collection[str]) -> "LaunchOutcome":
        """Return the answer without instances that claims outside the attempt have already.

        A launch that restored tables forgot is adopted by another attempt; EC2 names it again when its token returns.
        """
        return replace(
            self,
            instances=tuple(each for each in self.instances if each.id not in instance_ids),
        )

    def not_before(self, observed_at: datetime | None) -> "LaunchOutcome":
        """Return the answer with a time after an observation, even if the clock of its receiver is slow.

        By a slow clock a refusal would be older than the observation that it refutes. That observation would go on
        showing the unit as free: planned and refused again and again, until the clock has caught up.
        """
        if (
            observed_at is None
            or self.launched_at is None
            or observed_at < self.launched_at
        ):
            return self
        return replace(self, launched_at=observed_at + _MOMENT)


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """One attempt to launch a batch: the intent before EC2 is called, then the outcome.

    The first writer of the intent and the first writer of the outcome win; every other process continues from what they
    stored. ``completed`` closes the attempt once every claim and every reaction has been handled.
    """

    batch_id: str
    number: int
    claim_ids: tuple[str, ...]  # sorted
    request: LaunchRequest
    client_token: str
    recorded_at: datetime
    outcome: LaunchOutcome | None = None
    completed: bool = False
    # when EC2 was first seen to give no answer to the call, and with which code
    unanswered_at: datetime | None = None
    unanswered_code: str = ""

    @property
    def result(self) -> LaunchOutcome:
        """The outcome of an attempt that has one."""
        assert self.outcome is not None, "only resolved attempts are applied"
        return self.outcome

    @property
    def settled_at(self) -> datetime:
        """When the launch had certainly happened: leases and shortages count from here."""
        return self.result.launched_at or self.recorded_at

    def assignment(self) -> Mapping[str, LaunchedInstance]:
        """Return the instance of each claim that got one: claims in order of id, instances in order of id."""
        instances = (
            ()
            if self.outcome is None
            else sorted(self.outcome.instances, key=lambda instance: instance.id)
        )
        return dict(zip(self.claim_ids, instances, strict=False))

    def surplus(self) -> tuple[str, ...]:
        """Return instances beyond the number of claims."""
        instances = (
            ()
            if self.outcome is None
            else sorted(self.outcome.instances, key=lambda instance: instance.id)
        )
        return tuple(instance.id for instance in instances[len(self.claim_ids) :])

    def resolved(self, outcome: LaunchOutcome) -> "LaunchAttempt":
        """Return the attempt with its outcome."""
        return replace(self, outcome=outcome)


@dataclass(frozen=True, slots=True)
class LaunchReaction:
    """What an outcome means for everything but its own claims.

    ``retry``: the claims without an instance are worth another attempt, because no capacity was missing; ``pause``
    before it, because EC2 is in trouble or overloaded. ``reason`` is for claims that fail.
    """

    resting: tuple[OfferingKey, ...] = ()
    # that rest because EC2 refuses what the class asks for there
    refused: tuple[OfferingKey, ...] = ()
    resting_markets: Mapping[Market, str] = field(default_factory=dict)  # with EC2's codes
    full_subnets: tuple[SubnetKey, ...] = ()
    unsupported: tuple[OfferingKey, ...] = ()
    exhausted_reservation_id: str | None = None  # EC2 says that none of its units is left
    refused_reservation_id: str | None = None  # EC2 refuses it for another reason
    blocked_reason: str | None = None
    # why nothing of the class is launched on the request's market
    refused_market: str | None = None
    spot_not_permitted: bool = False
    retry: bool = False
    pause: bool = False
    reason: str = ""

    @property
    def resting_reservation_id(self) -> str | None:
        """The reservation that has nothing to give until its next observation."""
        return self.exhausted_reservation_id or self.refused_reservation_id


# Branches: a table of what each kind of error means, one line a reaction.
def react_to(
    request: LaunchRequest, outcome: LaunchOutcome, attempt_number: int = 1
) -> LaunchReaction:
    """Decide the reactions to the outcome of the batch's ``attempt_number``-th attempt."""
    if attempt_number <= TEMPLATE_DOUBTED_ATTEMPTS and _may_miss_its_templates(outcome):
        return LaunchReaction(retry=True, pause=True, reason=_codes(outcome))
    is_given_up = attempt_number >= UNKNOWN_ATTEMPTS_MAX
    errors = (
        [_as_shortage(error) for error in outcome.errors] if is_given_up else outcome.errors
    )
    kinds = {error.kind for error in errors}
    is_short = len(outcome.instances) < request.count
    is_silent = not kinds and not outcome.adopted
    # The slot that the request refills is scrubbed after its last instance: EC2 will have it soon.
    is_scrubbed = request.refills_slot and bool(kinds) and kinds <= _RESTS_RESERVATION
    refused_market = _refused_market(request, outcome)
    reaction = LaunchReaction(
        refused_market=refused_market,
        full_subnets=_full_subnets(request, errors),
        blocked_reason=_blocked_reason(outcome),
        refused=()
        if request.target or refused_market
        else _matching(request, _of_named_pools(outcome)),
        spot_not_permitted=LaunchErrorKind.SPOT_NOT_PERMITTED in kinds,
        retry=is_short and (kinds <= _RETRIED or is_scrubbed),
        pause=bool(kinds & _PAUSED) or is_silent or is_scrubbed,
        reason=_codes(outcome) or "EC2 launched nothing and gave no reason",
    )
    if request.target is None:
        return replace(
            reaction,
            resting=_resting(request, errors),
            resting_markets=_markets(request, errors),
            unsupported=_named(request, errors, LaunchErrorKind.UNSUPPORTED),
        )
    if is_scrubbed or not (kinds & _RESTS_RESERVATION or _of_named_pools(outcome)):
        return reaction
    if LaunchErrorKind.RESERVATION_EXHAUSTED in kinds:
        return replace(reaction, exhausted_reservation_id=request.target.reservation_id)
    return replace(reaction, refused_reservation_id=request.target.reservation_id)


def _may_miss_its_templates(outcome: LaunchOutcome) -> bool:
    """Whether EC2 refused the call as a whole because we may not: it names no pool then."""
    return not outcome.instances and any(
        error.kind is LaunchErrorKind.PERMISSION
        and error.instance_type is None
        and error.zone_id is None
        for error in outcome.errors
    )


def _codes(outcome: LaunchOutcome) -> str:
    return ", ".join(sorted({error.code for error in outcome.errors}))


def _blocked_reason(outcome: LaunchOutcome) -> str | None:
    """Say what blocks the class. One bad pool of many (an AMI for one architecture) must not while others launch."""
    if outcome.instances:
        return None
    blocking = {
        f"{error.kind}: {error.code}"
        for error in outcome.errors
        if error.kind in _BLOCKING
        and (error.instance_type is None or error.code in OF_THE_CLASS)
    }
    return "; ".join(sorted(blocking)) or None


def _refused_market(request: LaunchRequest, outcome: LaunchOutcome) -> str | None:
    """Say what the class is refused for in pools of unlike families on one market; other markets may go on."""
    if outcome.instances or request.target is not None:
        return None
    families: dict[str, set[str]] = {}
    for error in _of_named_pools(outcome):
        alike = families.setdefault(f"{error.kind}: {error.code}", set())
        alike.add((error.instance_type or "").partition(".")[0])
    return (
        "; ".join(
            sorted(
                what for what, alike in families.items() if len(alike) >= _FAMILIES_ALIKE
            )
        )
        or None
    )


def _of_named_pools(outcome: LaunchOutcome) -> list[LaunchError]:
    """Return the refusals of what the class asks for in pools that EC2 named, unless the class is blocked for them."""
    if _blocked_reason(outcome) is not None:
        return []
    return [
        error
        for error in outcome.errors
        if error.kind in _BLOCKING and error.instance_type is not None
    ]


def _resting(
    request: LaunchRequest, errors: Sequence[LaunchError]
) -> tuple[OfferingKey, ...]:
    """Return the offerings to leave alone; a quota counts for all zones, so trying the others would only fail again."""
    rests = [error for error in errors if error.kind in _RESTS_OFFERING]
    rests += [
        replace(error, zone_id=None)
        for error in errors
        if error.kind is LaunchErrorKind.TYPE_QUOTA
    ]
    return _matching(request, rests)


def _full_subnets(
    request: LaunchRequest, errors: Sequence[LaunchError]
) -> tuple[SubnetKey, ...]:
    """Return the subnets that ran out of addresses; where EC2 names none, all that the refusal may be about."""
    found: set[str] = set()
    for error in errors:
        if error.kind is LaunchErrorKind.SUBNET_FULL:
            found.update(
                override.subnet_id
                for override in request.overrides
                if _may_be_about(error, override)
            )
    return tuple(map(SubnetKey, sorted(found)))


def _may_be_about(error: LaunchError, override: LaunchOverride) -> bool:
    return error.subnet_id in (None, override.subnet_id) and error.zone_id in (
        None,
        override.zone_id,
    )


def _markets(request: LaunchRequest, errors: Sequence[LaunchError]) -> Mapping[Market, str]:
    """Return the markets whose quota is used up, with EC2's code: other types and zones of them would fail as well."""
    found = {}
    for error in errors:
        if error.kind is LaunchErrorKind.QUOTA:
            for offering in _matching(request, [replace(error, zone_id=None)]):
                found[
                    Market(offering.capacity_type, quota_group(offering.instance_type))
                ] = error.code
    return found


def _as_shortage(error: LaunchError) -> LaunchError:
    is_unknown = error.kind is LaunchErrorKind.UNKNOWN
    is_trouble = error.code in TROUBLE_OF_A_POOL and error.instance_type is not None
    if is_unknown or is_trouble:
        return replace(error, kind=LaunchErrorKind.INSUFFICIENT_CAPACITY)
    return error


def _named(
    request: LaunchRequest, errors: Sequence[LaunchError], kind: LaunchErrorKind
) -> tuple[OfferingKey, ...]:
    return _matching(request, [error for error in errors if error.kind is kind])


def _matching(
    request: LaunchRequest, errors: Sequence[LaunchError]
) -> tuple[OfferingKey, ...]:
    def is_meant(offering: OfferingKey) -> bool:
        return any(
            error.instance_type in (None, offering.instance_type)
            and error.zone_id in (None, offering.zone_id)
            for error in errors
        )

    return tuple(filter(is_meant, request.offerings))


def launched_offering(request: LaunchRequest, instance: LaunchedInstance) -> OfferingKey:
    """Return the offering that the instance came from."""
    target = request.target
    capacity_type = CapacityType.RESERVED if target is not None else request.capacity_type
    reservation_id = None if target is None else target.reservation_id
    return OfferingKey(
        instance.instance_type,
        instance.zone,
        instance.zone_id,
        capacity_type,
        reservation_id,
    )
