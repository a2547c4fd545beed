"""moto's EC2 for everything around capacity: networks, images, volumes, key pairs, zones.

Each emulation has a moto backend of its own instead of the process-wide one, so that two emulations never meet.
"""

from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.request import normalize_request
from moto.ec2.models import EC2Backend
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.responses import EC2Response
from werkzeug.exceptions import HTTPException

from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.api.images import images_of
from lab.embedded.ec2.api.protocol import Reply

# moto's own instances, fleets and Spot requests do not exist here; answering from them would show an empty account.
_SHADOWED = ("Instance", "Fleet", "Spot", "Capacity", "LaunchTemplate", "PlacementGroup")


def _number_zones(region: str) -> None:
    """Let zone a be number 1, b number 2, and so on: which zone has which name differs between real accounts.

    Everything else in this repository that makes zones up (tests, benches) numbers them like this, so that what is
    remembered under a zone's id is found again here.
    """
    zones = sorted(RegionsAndZonesBackend.zones[region], key=lambda zone: str(zone.name))
    for number, zone in enumerate(zones, start=1):
        zone.zone_id = f"{zone.zone_id.partition('-')[0]}-az{number}"


class _Backend(EC2Backend):
    """moto's backend with our images."""

    def _load_amis(self) -> None:
        self.amis = images_of(self)


class MotoEc2:
    """A moto EC2 backend bound to one account and region."""

    def __init__(self, account_id: str, region: str) -> None:
        self.backend: Any = _Backend(region, account_id)
        self._account_id = account_id
        self._region = region
        _number_zones(region)
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("backend", "_account_id", "_region")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._bind()

    def _bind(self) -> None:
        self._headers = HTTPHeaders.from_dict(
            {
                "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
                "x-moto-account-id": self._account_id,
            }
        )
        self._url = f"https://ec2.{self._region}.amazonaws.com/"
        backend = self.backend

        class BoundResponse(EC2Response):
            """moto's request handler, answering from this backend."""

            @property
            def ec2_backend(self) -> Any:
                return backend

        self._response_class = BoundResponse

    def answer(self, operation: str, body: bytes) -> Reply:
        """Let moto answer ``body``.

        Raises
        ------
        Ec2Error
            ``UnsupportedOperation`` for what nobody here implements: a refusal, never an empty answer.
        """
        if any(word in operation for word in _SHADOWED):
            raise Ec2Error("UnsupportedOperation", f"{operation} is not emulated.")
        prepared = AWSPreparedRequest(
            "POST", self._url, self._headers, body, stream_output=False
        )
        request = normalize_request(prepared)
        try:
            status, headers, text = self._response_class.dispatch(
                request, request.raw_url, request.headers
            )
        except HTTPException as error:
            return (
                int(error.code or 400),
                {"Content-Type": "text/xml;charset=UTF-8"},
                _as_bytes(error.get_body()),
            )
        except NotImplementedError as error:
            raise Ec2Error(
                "UnsupportedOperation", f"{operation} is not emulated: {error}"
            ) from error
        return (
            int(status),
            {"Content-Type": headers.get("Content-Type", "text/xml;charset=UTF-8")},
            _as_bytes(text),
        )


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
