"""Instances: what they are launched from, where they go, how long they live."""
