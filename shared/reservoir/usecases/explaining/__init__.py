"""Why a workload waits and why a node stays or goes."""
