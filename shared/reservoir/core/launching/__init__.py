"""From a plan's nodes to claims, requests to EC2, and what its answers mean."""
