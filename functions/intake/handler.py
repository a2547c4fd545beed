"""Demand queue -> Workloads. What cannot be understood, or may not be asked for, goes to the dead letters."""

from typing import Any

from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.runtime.batch import QueueMessage, each_message
from reservoir.runtime.composition.intake import demand_rules, describe, intake, rejections
from reservoir.runtime.observability import about, count, logger, observed
from reservoir.usecases.demand.intake import Answer


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a batch of demand messages; return the ids of those to deliver again."""
    demand = intake()
    dead_letters = rejections()
    rules = demand_rules()
    answers: dict[str, Answer] = {}

    def take(message: QueueMessage) -> None:
        try:
            asked = parse_demand(message.body)
            if isinstance(asked, DescribeMessage):
                demand.admit(asked, rules, message.sender_id)
                describe()(asked)
            else:
                answers[message.id] = answer = demand.apply(
                    asked, rules, message.sender_id, message.id
                )
                about(filter(None, [answer.workload.correlation_id]))
                logger.info("message taken", extra=_named(answer))
        except ManifestError as error:
            dead_letters.reject(message.id, message.body, error.problems, message.sender_id)
            logger.warning(
                "message rejected",
                extra={"message_id": message.id, "problem": str(error.problems[0])},
            )
            count("WorkloadRejected")

    try:
        return each_message(event, take)
    finally:
        changed = {
            key for answer in answers.values() if (key := answer.changed_key) is not None
        }
        if changed:
            # Also after a bug in one message: what its neighbours asked for is stored and wants planning.
            count("WorkloadsChanged", len(changed))
            demand.wake_planner(changed)
        demand.publish_answers(answers)


def _named(answer: Answer) -> dict[str, Any]:
    """Return what a line calls the workload, so that a message is found again by what became of it."""
    ref = answer.workload
    return {
        "action": answer.action,
        "workload": f"{ref.namespace}/{ref.name}",
        "generation": ref.generation,
        "ignored": answer.ignored,
    }
