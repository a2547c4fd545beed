"""The values that scheduling speaks of: labels, requirements, taints, resources, quantities and money."""
