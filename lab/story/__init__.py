"""The deployed stack as stories see it: its people, nodes, policies and workload systems."""
