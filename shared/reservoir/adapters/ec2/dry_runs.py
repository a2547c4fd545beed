"""Dry runs of the calls of a launch: EC2 answers whether it would accept them, and does nothing.

EC2 authorizes first (UnauthorizedOperation), then checks the request (its own code), and answers DryRunOperation last.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import DRY_RUN_CODES, map_client_errors
from reservoir.adapters.ec2.fleet import create_fleet_parameters
from reservoir.adapters.ec2.launch_templates import create_template_parameters
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import MUTATING_CALLS
from reservoir.core.launching.launch_request import LaunchRequest
from reservoir.core.launching.launch_template import LaunchTemplate
from reservoir.core.model.instance_type import CapacityType
from reservoir.ports.errors import AlreadyExistsError, AwsError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_TAGGED_RESOURCES: Final = ("instance", "network-interface", "volume")


class Ec2DryRuns:
    """Implements ``DryRuns``. The rate of mutating calls is that of launches: a dry run takes from it too."""

    def __init__(self, client: "EC2Client", pacer: Pacer | None = None) -> None:
        self._client = client
        self._pacer = pacer or Pacer(MUTATING_CALLS)

    def make_template(self, template: LaunchTemplate) -> None:
        """CreateLaunchTemplate."""
        try:
            with self._asking():
                self._client.create_launch_template(
                    **create_template_parameters(template), DryRun=True
                )
        except AlreadyExistsError:
            pass  # an earlier launch, or an earlier dry run of the class, made it

    def ask_for_fleet(self, request: LaunchRequest) -> None:
        """CreateFleet."""
        parameters = create_fleet_parameters(request, client_token="")
        # nothing is launched, so nothing must not be launched twice
        del parameters["ClientToken"]
        with self._asking():
            self._client.create_fleet(**parameters, DryRun=True)

    def run_instance(self, request: LaunchRequest) -> None:
        """RunInstances."""
        with self._asking():
            self._client.run_instances(**run_instance_parameters(request), DryRun=True)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ignore the error by which a dry run succeeds."""
        self._pacer.wait()
        try:
            with map_client_errors():
                yield
        except AwsError as error:
            if error.code not in DRY_RUN_CODES:
                raise


def run_instance_parameters(request: LaunchRequest) -> dict[str, Any]:
    """Return the parameters of RunInstances for one instance of the request's first pool, in EC2's shape."""
    config = request.configs[0]
    override = config.overrides[0]
    tags = [{"Key": key, "Value": value} for key, value in sorted(request.tags.items())]
    parameters: dict[str, Any] = {
        "LaunchTemplate": {"LaunchTemplateName": config.template.name, "Version": "1"},
        "InstanceType": override.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in _TAGGED_RESOURCES
        ],
        **_network(config.template.data, override.subnet_id),
    }
    if request.capacity_type is CapacityType.SPOT:
        parameters["InstanceMarketOptions"] = {"MarketType": "spot"}
    return parameters


def _network(template: Mapping[str, Any], subnet_id: str) -> dict[str, Any]:
    """Say in which subnet. EC2 refuses one beside network interfaces, the template's too: there it goes into these."""
    interfaces = template.get("NetworkInterfaces")
    if not interfaces:
        return {"SubnetId": subnet_id}
    return {
        "NetworkInterfaces": [
            {**interface, "SubnetId": subnet_id} for interface in interfaces
        ]
    }
