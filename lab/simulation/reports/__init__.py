"""What is told of what was played: the timeline of a seed that failed, made short, and where functions died."""
