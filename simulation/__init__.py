"""The whole pipeline in one process, under faults, from one seed: the same seed plays the same, to the last call.

``kernel``      time, turns and chance
``lambdas``     invocations of the real handlers: overlap, kills, time-outs, frozen environments
``aws``         stand-ins for what is outside: SQS, EventBridge, Scheduler, DynamoDB's lag, EC2
``world``       all of it put together, and who acts on it: users, owners of reservations, outsiders
``invariants``  what must hold after every step; ``liveness`` what must come about when faults stop
``play``        a seed from its beginning to its verdict; ``shrink`` makes a failing one short

See docs/simulation.md.
"""
