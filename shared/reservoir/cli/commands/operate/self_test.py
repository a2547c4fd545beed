"""``reservoir self-test``: whether a deployment launches, and lets go again."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Final

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.console import Yes, agree, fail, messages, output
from reservoir.cli.output import printable
from reservoir.cli.policy import apply_policy, attempt, connection
from reservoir.cli.self_testing.manifests import NAME, cheapest
from reservoir.cli.self_testing.run import SelfTest, SelfTestPlan
from reservoir.cli.stack.connection import Connection
from reservoir.cli.waiting import Timeout, span
from reservoir.core.model.node_class import NodeClass
from reservoir.core.scheduling_terms.money import micro_usd_of, usd
from reservoir.manifests.answers.self_test import SelfTestAnswer, SelfTestStep
from reservoir.names import VERSION
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.policy_objects import policy_of

_NOT_PASSED: Final = 1
_CAP_USD: Final = "0.10"
_STEP_TIMEOUT: Final = "10m"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("self-test")(self_test)


def self_test(
    context: typer.Context,
    node_class: Annotated[
        str | None,
        typer.Option(
            help="The EC2NodeClass whose copy launches the instance; needed where there are several."
        ),
    ] = None,
    most: Annotated[
        str,
        typer.Option(
            "--most",
            metavar="USD",
            help="What the instance may cost an hour; a self-test takes some minutes.",
        ),
    ] = _CAP_USD,
    reserve: Annotated[
        bool,
        typer.Option(
            "--reserve",
            help="Also with a reservation of one unit, made with your own credentials and cancelled again.",
        ),
    ] = False,
    namespace: Annotated[
        str, typer.Option(help="Where its workloads are; a Team must let you submit there.")
    ] = NAME,
    report: Annotated[
        Path | None,
        typer.Option(
            help="A file for the whole result as JSON, to attach to a bug report."
        ),
    ] = None,
    timeout: Timeout = _STEP_TIMEOUT,
    yes: Yes = False,
    form: Output = Format.TEXT,
) -> None:
    """Launch one small instance, and end it again.

    It goes through the whole pipeline, and every step is named. It uses a class, a pool and workloads of its own, and
    removes them whatever happens. Ends with 1 when a step failed.
    """
    stack = connection(context)
    plan = _plan(
        stack,
        node_class,
        _micro_usd(most),
        namespace,
        timeout,
        reserves=reserve,
    )
    price = usd(plan.price_micro_usd_per_hour)
    messages().print(f"It launches one {plan.instance_type} for {price} an hour.")
    agree("Begin?", yes=yes)
    test = SelfTest(stack, apply_policy(context), plan, _say(form))
    passed = test.run()
    answer = SelfTestAnswer(
        passed=passed,
        release=VERSION,
        deployed_release=stack.release,
        region=stack.outside.settings.region,
        node_class=plan.node_class.name,
        instance_type=plan.instance_type,
        steps=test.steps,
        cost_micro_usd=test.cost_micro_usd(),
    )
    if report is not None:
        report.write_text(answer.model_dump_json(indent=2) + "\n", encoding="utf-8")
    verdict = "All steps passed" if passed else "A step failed"
    print_answer(
        "SelfTest", answer, [f"{verdict}. It cost {usd(answer.cost_micro_usd)}."], form
    )
    if not passed:
        raise typer.Exit(_NOT_PASSED)


def _say(form: Format) -> Callable[[SelfTestStep], None]:
    """Return what prints a step when it is over; programs get them all at the end."""

    def say(step: SelfTestStep) -> None:
        mark = "ok    " if step.passed else "FAILED"
        line = printable(f"{mark}  {step.name} ({step.took_s} s): {step.said}")
        (output() if form is Format.TEXT else messages()).print(line)

    return say


def _plan(
    stack: Connection,
    name: str | None,
    most_micro_usd_per_hour: int,
    namespace: str,
    timeout: str,
    *,
    reserves: bool,
) -> SelfTestPlan:
    objects = attempt(stack.outside.policy.list_all)
    classes = [each for each in policy_of(objects).node_classes if each.name != NAME]
    chosen = _chosen(classes, name)
    if not chosen.status.machine_images or not chosen.status.subnets:
        fail(
            f"EC2NodeClass/{chosen.name} is not ready: see `reservoir describe class {chosen.name}`"
        )
    types = attempt(stack.outside.offerings.load_catalogue)
    found = cheapest(types, chosen, most_micro_usd_per_hour)
    if found is None:
        fail(
            f"nothing that EC2NodeClass/{chosen.name} can launch costs at most {usd(most_micro_usd_per_hour)} an hour:"
            " allow more with --most"
        )
    stored = next(
        each
        for each in objects
        if (each.kind, each.name) == (PolicyKind.NODE_CLASS, chosen.name)
    )
    return SelfTestPlan(
        stored,
        chosen.platform,
        found.name,
        found.on_demand_price_micro_usd_per_hour or most_micro_usd_per_hour,
        namespace,
        span(timeout),
        reserves,
    )


def _chosen(classes: list[NodeClass], name: str | None) -> NodeClass:
    found = [each for each in classes if name in (None, each.name)]
    if not found:
        fail(f"there is no EC2NodeClass {name or 'yet'}: apply one first")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        fail(f"there are several classes: choose one with --node-class ({names})")
    return found[0]


def _micro_usd(text: str) -> int:
    try:
        amount = micro_usd_of(Decimal(text))
    except InvalidOperation:
        fail(f"{text!a} is not an amount of USD")
    if amount <= 0:
        fail("--most is more than nothing")
    return amount
