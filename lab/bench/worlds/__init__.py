"""The snapshots that benches measure: catalogue, demand, fleets, and the cases by name."""
