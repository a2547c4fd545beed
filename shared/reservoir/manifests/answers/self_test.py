"""What ``reservoir self-test`` prints for programs and keeps in its report. It names no account and no person."""

from pydantic import Field

from reservoir.manifests.event_parts import Part


class SelfTestStep(Part):
    """One step, in the order in which they were done."""

    name: str
    passed: bool
    took_s: int
    said: str = Field(description="What came of it, or why it failed.")


class SelfTestAnswer(Part):
    """A whole self-test."""

    passed: bool
    release: str = Field(description="Of the command line.")
    deployed_release: str | None = Field(
        default=None, description="Of the stack; absent: it did not say."
    )
    region: str
    node_class: str
    instance_type: str
    steps: list[SelfTestStep]
    cost_micro_usd: int = Field(
        description="At on-demand prices, an instance for a minute at least."
    )
