"""Services that run side by side, each in its lane; nothing here measures time."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from embedded.front.lanes import Lanes

PATIENCE_S = 60.0  # before a test gives up
CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller")


async def within(answer: Any) -> Any:
    return await asyncio.wait_for(answer, PATIENCE_S)


def test_a_call_that_is_held_does_not_hold_up_another_service() -> None:
    let_go, held = threading.Event(), threading.Event()

    async def hold() -> str:
        held.set()
        assert let_go.wait(PATIENCE_S)
        return "held"

    async def answer() -> str:
        return "answered"

    async def scenario() -> None:
        lanes = Lanes()
        slow = asyncio.ensure_future(lanes.bound("dynamodb", hold)())
        await within(asyncio.to_thread(held.wait))
        assert await within(lanes.bound("sqs", answer)()) == "answered"
        assert not slow.done()
        let_go.set()
        assert await within(slow) == "held"

    asyncio.run(scenario())


def test_calls_of_one_service_run_one_after_the_other() -> None:
    running: list[int] = []
    most: list[int] = []

    async def work(number: int) -> int:
        running.append(number)
        most.append(len(running))
        sum(range(10_000))
        running.remove(number)
        return number

    async def scenario() -> list[int]:
        call = Lanes().bound("dynamodb", work)
        answers: list[int] = await within(asyncio.gather(*(call(number) for number in range(100))))
        return answers

    assert asyncio.run(scenario()) == list(range(100))
    assert max(most) == 1


def test_a_call_that_waits_lets_others_of_its_service_pass() -> None:
    async def scenario() -> None:
        arrived: asyncio.Queue[str] = asyncio.Queue()
        inbox: list[asyncio.Future[str]] = []

        async def receive() -> str:
            inbox.append(asyncio.get_running_loop().create_future())
            here.call_soon_threadsafe(arrived.put_nowait, "receiver")
            return await inbox[0]

        async def send(message: str) -> None:
            inbox[0].set_result(message)

        here = asyncio.get_running_loop()
        lanes = Lanes()
        poll = asyncio.ensure_future(lanes.bound("sqs", receive)())
        await within(arrived.get())
        await within(lanes.bound("sqs", send)("hello"))
        assert await within(poll) == "hello"

    asyncio.run(scenario())


def test_a_service_may_call_itself() -> None:
    lanes = Lanes()

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        answer: str = await lanes.bound("lambda", inner)()
        return answer

    assert asyncio.run(lanes.bound("lambda", outer)()) == "inner"


def test_services_may_call_each_other_in_a_circle() -> None:
    lanes = Lanes()

    async def last() -> str:
        return "last"

    async def middle() -> str:
        answer: str = await lanes.bound("lambda", last)()
        return answer

    async def first() -> str:
        answer: str = await lanes.bound("cloudformation", middle)()
        return answer

    assert asyncio.run(lanes.bound("lambda", first)()) == "last"


def test_what_a_service_raises_reaches_its_caller() -> None:
    async def refuse() -> None:
        raise LookupError("no such queue")

    with pytest.raises(LookupError, match="no such queue"):
        asyncio.run(Lanes().bound("sqs", refuse)())


def test_a_service_sees_its_own_callers_context() -> None:
    async def who() -> str:
        return CALLER.get()

    async def call_as(name: str, lanes: Lanes) -> str:
        CALLER.set(name)
        answer: str = await lanes.bound("iam", who)()
        return answer

    async def scenario() -> list[str]:
        lanes = Lanes()
        seen: list[str] = await within(asyncio.gather(*(call_as(name, lanes) for name in ("alice", "bob"))))
        return seen

    assert asyncio.run(scenario()) == ["alice", "bob"]
