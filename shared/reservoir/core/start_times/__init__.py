"""When work that waits will start: how long runs last, played forward many times."""
