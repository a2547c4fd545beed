"""The command line: ``python -m reservoir``. One module a command, in the rooms of ``commands``."""
