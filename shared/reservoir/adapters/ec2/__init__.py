"""EC2's capacity, instances, networks and fleets behind the product's ports."""
