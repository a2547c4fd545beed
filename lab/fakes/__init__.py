"""Fakes that behave: each implements a port in memory and passes the same contract suite as the adapter."""
