"""Operators, who act by hand: cordon, drain, delete, pause, and take it back again, sometimes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.system import Sender

ARN: Final = "arn:aws:sts::123456789012:assumed-role/operators/mira"
SENDER: Final = Sender(ARN, "AROAOPERATORS:mira")
_NODE_VERBS: Final = ("cordon", "cordon", "uncordon", "drain", "delete")


class Identities:
    """AWS, as far as it vouches for who signed a request."""

    def sender_of(self, digest: str, proof: Mapping[str, str]) -> Sender:
        """Return who signed it; raises AccessDeniedError."""
        if proof.get("signed") != digest:
            raise AccessDeniedError("SignatureDoesNotMatch", "GetCallerIdentity")
        return SENDER


@dataclass
class Operators:
    """All of them. ``ask`` invokes the function with a request."""

    kernel: Kernel
    chance: Chance
    claims: Callable[[], Mapping[str, NodeClaim]]
    ask: Callable[[dict[str, Any]], None]
    pools: tuple[str, ...] = ()
    resting: bool = False

    def act(self) -> None:
        """Do something by hand now, and again after a while."""
        if self.resting:
            return
        choice = self.chance.between("operators", 0, 5)
        live = [key for key, claim in sorted(self.claims().items()) if claim.is_live]
        if choice == 0:
            self._pause()
        elif live:
            count = min(len(live), self.chance.between("operators", 1, 2))
            names = self.chance.stream("operators").sample(live, count)
            known_as_instances = [self.claims()[name].instance_id or name for name in names]
            verb = _NODE_VERBS[self.chance.between("operators", 0, len(_NODE_VERBS) - 1)]
            asked = {
                "verb": verb,
                "names": names if choice % 2 else known_as_instances,
                "reason": "OPS-1: looks odd",
            }
            if verb == "drain" and choice > 3:
                asked["deadline"] = "90s"
            self._say(asked)
        self.kernel.after(self.chance.between("operators", MINUTE, 8 * MINUTE), self.act)

    def go_home(self) -> None:
        """Let every pool launch again, and every node take replicas."""
        self.resting = True
        self._say({"verb": "resume", "names": list(self.pools), "reason": "OPS-2: done"})
        cordoned = [
            key
            for key, claim in sorted(self.claims().items())
            if claim.cordoned and claim.is_live
        ]
        if cordoned:
            self._say({"verb": "uncordon", "names": cordoned, "reason": "OPS-2: done"})

    def _pause(self) -> None:
        self._say(
            {"verb": "pause", "names": list(self.pools), "reason": "OPS-3: wrong image"}
        )
        resumed = {
            "verb": "resume",
            "names": list(self.pools),
            "reason": "OPS-3: it was not",
        }
        self.kernel.after(
            self.chance.between("operators", 20 * SECOND, 6 * MINUTE),
            lambda: self._say(resumed),
        )

    def _say(self, request: dict[str, Any]) -> None:
        self.ask(request)
