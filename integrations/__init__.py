"""Workload systems on Reservoir's client: one folder each, with a README of one page."""
