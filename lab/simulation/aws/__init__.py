"""Stand-ins for AWS. What each does differently from AWS's documents is told in docs/simulation.md."""
