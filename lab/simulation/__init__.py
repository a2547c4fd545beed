"""The whole pipeline in one process, under faults, from one seed: the same seed plays the same, to the last call.

``kernel``      time, turns and chance
``aws``         stand-ins: SQS, EventBridge, Scheduler, DynamoDB's lag, EC2, and Lambda: the real handlers,
                overlapping, killed, timed out, in frozen environments
``people``      who acts on it: users, owners of reservations, agents, operators, outsiders
``world``       all of it put together
``invariants``  what must hold after every step; ``liveness`` what must come about when faults stop
``play``        a seed from its beginning to its verdict
``reports``     makes a failing seed short and draws it; says where functions died

See docs/simulation.md.
"""
