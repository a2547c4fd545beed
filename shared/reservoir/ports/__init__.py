"""What the use cases need from the outside, as Protocols; adapters implement them, tests bring fakes that behave.

Behind nearly every method is a call to AWS, so each of those may raise AwsError (:mod:`reservoir.ports.errors`); a
docstring names an error where callers decide by it. Durations end in ``_s`` (seconds), instants are aware and in UTC.
"""
