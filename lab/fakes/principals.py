"""IAM's roles and users in memory."""

from dataclasses import dataclass, field


@dataclass
class MemoryPrincipals:
    """Implements ``PrincipalReader``; tests write ``ids``."""

    ids: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def unique_id(self, arn: str) -> str | None:
        self.asked.append(arn)
        return self.ids.get(arn)
