"""Slurm: cloud nodes that are launched on reserved capacity first."""
