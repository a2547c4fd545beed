"""The command line: ``reservoir``, or ``python -m reservoir``. One module a command, in the rooms of ``commands``."""
