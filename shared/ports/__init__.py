"""What the use cases need from the outside, as Protocols; adapters implement them, tests bring fakes that behave."""
