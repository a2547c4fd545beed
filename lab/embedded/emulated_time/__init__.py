"""The emulated time: the clock, the governor that keeps it from running ahead of the work, and what follows them."""
