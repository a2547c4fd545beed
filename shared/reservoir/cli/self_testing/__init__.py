"""``reservoir self-test``: what it makes, and the steps that it takes."""
