"""Why a demo may fail. The reasons have nothing in common, so each has an exit status of its own."""

from typing import Final

RULE_BROKEN: Final = 1
FAILED: Final = 70  # EX_SOFTWARE: the demo itself
TOO_SLOW: Final = 75  # EX_TEMPFAIL: try again, on a machine with less to do


class RuleBrokenError(Exception):
    """Something that must be true of EC2 is not, although there was all the emulated time that it takes."""


class NotReachedError(RuleBrokenError):
    """Something did not happen in its emulated time. Nobody was too slow for that, unless functions were killed.

    A function has as many real seconds as its timeout says, as on AWS; one that a slow machine kills each time never
    does its work, however much emulated time there is.
    """


class TooSlowError(Exception):
    """A step took longer on this machine than anybody would watch; nothing that was seen is wrong."""
