"""What users write and read: pydantic models of manifests, messages and events, and their conversion to the core."""
