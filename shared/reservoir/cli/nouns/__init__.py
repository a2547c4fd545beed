"""What ``get`` and ``describe`` know: one module a noun, found by :mod:`reservoir.cli.nouns.registry`."""
