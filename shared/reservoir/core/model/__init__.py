"""What there is: workloads, pools, classes, claims, reservations, and the snapshots and plans made of them."""
