"""The pure domain: no AWS, no clock, no environment, no randomness, no logging."""
