"""What MiniStack's CloudFormation leaves out: kinds of resources, and the events of stacks."""
