"""GitHub Actions runners: a job that is queued gets a machine, and the machine a runner for one job."""
