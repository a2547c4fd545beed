"""``make demo``: the deployed stack on an embedded AWS puts workloads into reservations first, live in a terminal."""
