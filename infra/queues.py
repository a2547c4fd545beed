"""The queues, each with its dead letter queue, and one for what AWS could not deliver."""

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import CONSUMERS, FUNCTIONS
from infra.iam.acknowledgements import acknowledge_letters_of_rules
from infra.tables import kept
from reservoir.names import Queue, output_name

RETENTION = Duration.days(14)  # the most SQS keeps: a dead letter waits for a person


class WorkQueues(Construct):
    """The five queues. Encrypted with SQS's own key: with AWS's KMS key EventBridge could not write."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        retain: bool,
        event_bus_name: str,
        unpublished_name: str,
    ) -> None:
        super().__init__(scope, construct)
        self._unpublished_name = unpublished_name
        self._retain = retain
        self.dead_letters = {queue: self._dead_letters(queue) for queue in Queue}
        self.by_name = {queue: self._queue(queue) for queue in Queue}
        # Of every rule, whatever it was meant for: a dead letter queue of EventBridge cannot be FIFO, and what lies
        # here says that a delivery is broken, not that a function failed.
        self.by_name[Queue.REPORTS].add_to_resource_policy(
            _nobody_but_instances(self.by_name[Queue.REPORTS])
        )
        self.undelivered = self._letters("Undelivered", fifo=None)
        self.undelivered.add_to_resource_policy(
            _from_rules(self.undelivered, event_bus_name)
        )
        # As rules know it. To the policy of a queue that it has made itself the CDK adds a statement for each rule; SQS
        # takes no more than 20 statements and 8,192 bytes.
        self.letters_of_rules = sqs.Queue.from_queue_arn(
            self, "LettersOfRules", self.undelivered.queue_arn
        )
        acknowledge_letters_of_rules(self.undelivered)
        self.unpublished = self._unpublished_events()

    def _dead_letters(self, queue: Queue) -> sqs.Queue:
        return self._letters(
            f"{output_name(queue.name)}DeadLetters",
            fifo=_fifo(queue),
            removal_policy=self._removal_policy(queue),
        )

    def _letters(
        self,
        name: str,
        *,
        fifo: bool | None,
        removal_policy: RemovalPolicy = RemovalPolicy.DESTROY,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            fifo=fifo,
            content_based_deduplication=fifo,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=RETENTION,
            removal_policy=removal_policy,
        )

    def _queue(self, queue: Queue) -> sqs.Queue:
        consumer = FUNCTIONS[CONSUMERS[queue]]
        return sqs.Queue(
            self,
            output_name(queue.name),
            fifo=_fifo(queue),
            # Senders of ours name a deduplication id; the schedule cannot, and its bodies differ by their time.
            content_based_deduplication=_fifo(queue),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(
                consumer.hidden_timeouts * consumer.timeout_s
            ),
            retention_period=RETENTION,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters[queue], max_receive_count=consumer.max_receive_count
            ),
            removal_policy=self._removal_policy(queue),
        )

    def _unpublished_events(self) -> sqs.Queue:
        """Return the queue of what the outbound bus refused; the collector looks into it, so nothing polls it."""
        return sqs.Queue(
            self,
            "UnpublishedEvents",
            queue_name=self._unpublished_name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=RETENTION,
            # The most that SQS counts: with a look each five minutes three days.
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.undelivered, max_receive_count=1_000
            ),
        )

    def _removal_policy(self, queue: Queue) -> RemovalPolicy:
        """Demand is its senders' and nobody can make it again; what the other queues hold follows from the tables."""
        return kept(retain=self._retain and queue is Queue.DEMAND)


def _from_rules(queue: sqs.Queue, event_bus_name: str) -> iam.PolicyStatement:
    """Allow the stack's rules, on the default bus and on its own, to leave what they could not deliver.

    A rule's name begins with the stack's, also where CloudFormation has to shorten it.
    """
    stack = Stack.of(queue)
    names = (f"{stack.stack_name}-*", f"{event_bus_name}/{stack.stack_name}-*")
    rules = [
        stack.format_arn(service="events", resource="rule", resource_name=name)
        for name in names
    ]
    return iam.PolicyStatement(
        sid="FromRules",
        principals=[iam.ServicePrincipal("events.amazonaws.com")],
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        conditions={
            "ArnLike": {"aws:SourceArn": rules},
            "StringEquals": {"aws:SourceAccount": stack.account},
        },
    )


def _nobody_but_instances(queue: sqs.Queue) -> iam.PolicyStatement:
    """Refuse reports by anybody but an instance with credentials that EC2 has delivered to it.

    Reports are believed about the instance whose id is the name of the sender's session (``SenderId``). Whoever assumes
    a role may choose that name, but not this key.
    """
    return iam.PolicyStatement(
        sid="NobodyButInstances",
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        conditions={"Null": {"ec2:SourceInstanceARN": "true"}},
    )


def _fifo(queue: Queue) -> bool | None:
    return True if queue is Queue.PLANNING else None
