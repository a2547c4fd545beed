"""Use cases in memory: worlds in which they plan, launch, drain and disrupt."""
