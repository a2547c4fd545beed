"""Ray: worker nodes that are launched on reserved capacity first."""
