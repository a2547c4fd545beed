"""What is told of a finished decision: the plan, and a reason for each replica that is left out."""
