"""The Policy table. Its objects are values, so nobody needs a copy."""

from typing import Any

from lab.fakes.stores.policy_store import MemoryPolicyStore
from reservoir.ports.policy import PolicyKind, PolicyObject


class SharedPolicyStore(MemoryPolicyStore):
    """Returns what is stored, not copies of it: most of a run's reads are of policy."""

    def list_all(self) -> tuple[PolicyObject, ...]:
        """Return all objects by kind and name."""
        return tuple(self._rows[key] for key in sorted(self._rows))

    def rows(self) -> Any:
        """Return what is stored, to be put back."""
        return dict(self._rows), dict(self._revisions)

    def put_back(self, rows: Any) -> None:
        """Hold other rows."""
        self._rows, self._revisions = (dict(each) for each in rows)

    def get(self, kind: PolicyKind, name: str) -> PolicyObject | None:
        """Return an object."""
        return self._rows.get((kind, name))
