"""What deciding costs, and how good decisions are: planning, disruption, fairness between teams."""
