"""``reservoir self-test``: the resources that it makes, and its steps."""
