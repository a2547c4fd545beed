"""Reservoir, in layers; imports point inwards (import-linter proves it).

``cli``        the command line
``client``     what workload systems import
``agent``      what runs on nodes
``runtime``    Powertools and the environment: settings, logging, composition, batch loops
``adapters``   boto3: EC2, DynamoDB, SQS, EventBridge, Scheduler, Pricing, S3
``usecases``   gather -> decide -> apply, one verb a module, against ``ports``
``manifests``  pydantic models of everything that users write and read, and their conversion to ``core``
``ports``      what the use cases need from the outside, as Protocols
``core``       pure: domain types and the scheduler; standard library only
``names``      names that infrastructure and adapters must agree on
"""
