"""``reservoir cordon``, ``drain``, ``delete node``, ``pause`` and their like, with the functions at work."""

import json
import re

import pytest

from reservoir.core.model.node_claim import ClaimState, NodeClaim
from tests.cli.acting import ME, Stack, at_a_terminal, stack

__all__ = ["at_a_terminal", "stack"]

WHY = ("--reason", "OPS-7")


@pytest.fixture
def claim(stack: Stack) -> NodeClaim:
    """A node in a reservation, with two replicas."""
    stack.world.add_reservation("cr-1", total_count=1)
    stack.world.submit("train", replicas=2, gpus=4)
    stack.world.minutes(2)
    (claim,) = stack.world.live()
    return claim


@pytest.mark.usefixtures("at_a_terminal")
def test_a_drain_says_what_ends_and_asks(stack: Stack, claim: NodeClaim) -> None:
    refused = stack.run("drain", claim.id, *WHY, given="n\n")
    assert refused.exit_code == 2
    assert (
        f"node/{claim.id} ({claim.instance_id}): running, p5.48xlarge in {claim.offering.zone}, a unit of cr-1;"
        " 2 x research/train\nThe node terminates when all replicas have left, or their notice is over; the replicas"
        " wait for another place now. Drain?"
    ) in refused.stderr
    assert stack.world.state.claim_rows[claim.id].drain is None

    agreed = stack.run("drain", "node", claim.id, "--deadline", "10m", *WHY, given="y\n")
    assert agreed.exit_code == 0, agreed.stderr
    assert f"node/{claim.id} draining until 2" in agreed.stdout


def test_without_a_terminal_no_node_ends_unless_yes_is_said(
    stack: Stack, claim: NodeClaim
) -> None:
    assert stack.run("delete", "node", claim.id, *WHY, given="y\n").exit_code == 2
    assert stack.world.state.claim_rows[claim.id].state is ClaimState.RUNNING
    done = stack.run("delete", f"node/{claim.id}", *WHY, "--yes")
    assert (done.exit_code, done.stdout) == (0, f"node/{claim.id} terminating\n")
    again = stack.run("delete", "node", claim.id, *WHY, "--yes")
    assert (again.exit_code, again.stdout) == (
        0,
        f"node/{claim.id} unchanged: terminating\n",
    )


def test_nodes_are_cordoned_and_pools_paused_without_asking(
    stack: Stack, claim: NodeClaim
) -> None:
    assert claim.instance_id is not None
    lines = [
        stack.run(*words, *WHY).stdout
        for words in (
            ("cordon", claim.instance_id),
            ("uncordon", f"node/{claim.id}"),
            ("pause", "pool", "gpu"),
            ("resume", "nodepool/gpu"),
        )
    ]
    assert lines == [
        f"node/{claim.instance_id} cordoned; takes no new replicas\n",
        f"node/{claim.id} uncordoned; takes new replicas again\n",
        "nodepool/gpu paused; launches no nodes\n",
        "nodepool/gpu resumed; launches nodes again\n",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cordon", "nc-1"), "Missing option '--reason'"),
        (("cordon", "nc-1", "--reason", " "), "say why"),
        (("cordon", "nc-1", "--reason", "a\x1b[31m"), "must be printable text on one line"),
        (("cordon", "node", *WHY), "say what to cordon: node NAME..."),
        (("cordon", "No Name", *WHY), "names[0]"),
        (("drain", "nc-none", *WHY, "--yes"), "node/nc-none does not exist"),
        (("drain", "nc-1", "--deadline", "10", *WHY), "must be a duration"),
        (("delete", "node", "nc-1"), "give the reason, with --reason"),
        (
            ("delete", "node/nc-1", "nodepool/gpu", *WHY),
            "delete nodes in a command of their own",
        ),
        (("delete", "node", "nc-1", "--dry-run", *WHY), "nodes have no dry run"),
        (
            ("pause", "gpus", *WHY),
            "nodepool/gpus refused: it does not exist; did you mean gpu?",
        ),
    ],
)
def test_a_wrong_request_says_what_is_wrong(
    stack: Stack, arguments: tuple[str, ...], said: str
) -> None:
    result = stack.run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_whoever_asked_is_told_on_the_bus(stack: Stack, claim: NodeClaim) -> None:
    stack.run("cordon", claim.id, *WHY)
    (told,) = stack.world.bus.of("Operation Requested")
    assert (told["verb"], told["by"], told["reason"]) == ("cordon", ME, "OPS-7")


def test_a_paused_pool_is_seen_to_be_paused_and_by_whom(stack: Stack) -> None:
    assert "PAUSED" in stack.run("get", "pools").stdout
    assert stack.run("get", "pools", "--state", "paused", "-o", "name").stdout == ""
    stack.run("pause", "pool", "gpu", *WHY)
    listed = stack.run("get", "pools", "--state", "paused", "-o", "json").stdout
    (pool,) = json.loads(listed)["items"]
    assert re.fullmatch(
        rf"by {re.escape(ME)} since [0-9: -]+ UTC: OPS-7", pool["status"]["paused"]
    )
    assert f"by {ME}" in stack.run("get", "pools").stdout
    stack.run("resume", "pool", "gpu", *WHY)
    assert stack.run("get", "pools", "--state", "paused", "-o", "name").stdout == ""
