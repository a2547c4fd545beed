"""AWS in one process, on loopback only, for the demo and the tests (see ``docs/embedded-aws.md``)."""
