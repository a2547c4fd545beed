"""Step Functions: a state that waits for a workload's machines (``waitForTaskToken``)."""
