"""Let more end than the safety envelope allows, once, by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from reservoir.core.model.node_claim import Operation
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.tally import Lift
from reservoir.manifests.answers.operations import OperationResult
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import ConflictError
from reservoir.usecases.safety.envelope import LiftEnvelope


@dataclass(frozen=True, slots=True)
class LiftBounds:
    """Acts on kinds of endings, by name."""

    envelope: LiftEnvelope

    def lift(
        self, names: Sequence[str], operation: Operation, count: int, lasts: timedelta
    ) -> list[OperationResult]:
        """Let so many more of each kind end, for so long. A second lift takes the place of the first."""
        return [self._lift(name, operation, count, lasts) for name in dict.fromkeys(names)]

    def _lift(
        self, name: str, operation: Operation, count: int, lasts: timedelta
    ) -> OperationResult:
        if name not in set(EndingKind):
            message = f"is not a kind of ending; there are: {', '.join(EndingKind)}"
            return OperationResult(name=name, outcome="refused", message=message)
        given = Lift(
            count, operation.at + lasts, operation.by, operation.reason, operation.at
        )
        try:
            self.envelope.lift(EndingKind(name), given)
        except ConflictError:
            return OperationResult(
                name=name,
                outcome="refused",
                message="it changes too fast; repeat the command",
            )
        except UnreadableRowError as error:
            return OperationResult(
                name=name,
                outcome="refused",
                message=f"nothing was written: cannot read the {error}",
            )
        message = f"lifted for {count} until {given.ends_at:%Y-%m-%d %H:%M} UTC"
        return OperationResult(name=name, outcome="done", message=message)
