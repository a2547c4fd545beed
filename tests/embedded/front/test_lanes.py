"""Services that run side by side, each in its lane; nothing here measures time."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from lab.embedded.front.lanes import Lanes

PATIENCE_S = 600.0  # before a test gives up
CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller")


def is_long(*_: Any) -> bool:
    return False


def is_short(*_: Any) -> bool:
    return True


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
        slow = asyncio.ensure_future(lanes.bound("dynamodb", hold, is_long)())
        await within(asyncio.to_thread(held.wait))
        assert await within(lanes.bound("sqs", answer, is_long)()) == "answered"
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
        call = Lanes().bound("dynamodb", work, is_long)
        answers: list[int] = await within(
            asyncio.gather(*(call(number) for number in range(100)))
        )
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
        poll = asyncio.ensure_future(lanes.bound("sqs", receive, is_long)())
        await within(arrived.get())
        await within(lanes.bound("sqs", send, is_long)("hello"))
        assert await within(poll) == "hello"

    asyncio.run(scenario())


def test_a_service_may_call_itself() -> None:
    lanes = Lanes()

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        answer: str = await lanes.bound("lambda", inner, is_long)()
        return answer

    assert asyncio.run(lanes.bound("lambda", outer, is_long)()) == "inner"


def test_services_may_call_each_other_in_a_circle() -> None:
    lanes = Lanes()

    async def last() -> str:
        return "last"

    async def middle() -> str:
        answer: str = await lanes.bound("lambda", last, is_long)()
        return answer

    async def first() -> str:
        answer: str = await lanes.bound("cloudformation", middle, is_long)()
        return answer

    assert asyncio.run(lanes.bound("lambda", first, is_long)()) == "last"


def test_what_a_service_raises_reaches_its_caller() -> None:
    async def refuse() -> None:
        raise LookupError("no such queue")

    with pytest.raises(LookupError, match="no such queue"):
        asyncio.run(Lanes().bound("sqs", refuse, is_long)())


def test_a_service_sees_its_own_callers_context() -> None:
    async def who() -> str:
        return CALLER.get()

    async def call_as(name: str, lanes: Lanes) -> str:
        CALLER.set(name)
        answer: str = await lanes.bound("iam", who, is_long)()
        return answer

    async def scenario() -> list[str]:
        lanes = Lanes()
        seen: list[str] = await within(
            asyncio.gather(*(call_as(name, lanes) for name in ("alice", "bob")))
        )
        return seen

    assert asyncio.run(scenario()) == ["alice", "bob"]


async def thread_name() -> str:
    return threading.current_thread().name


def test_a_short_call_runs_at_once_while_its_service_is_idle() -> None:
    async def scenario() -> tuple[str, str]:
        lanes = Lanes()
        return (
            await within(lanes.bound("dynamodb", thread_name, is_short)()),
            await within(lanes.bound("dynamodb", thread_name, is_long)()),
        )

    assert asyncio.run(scenario()) == (threading.current_thread().name, "lane-dynamodb")


def test_a_short_call_waits_its_turn_while_its_service_is_held() -> None:
    let_go, held = threading.Event(), threading.Event()
    order: list[str] = []

    async def hold() -> None:
        held.set()
        assert let_go.wait(PATIENCE_S)
        order.append("held")

    async def put() -> None:
        order.append(await thread_name())

    async def scenario() -> None:
        lanes = Lanes()
        slow = asyncio.ensure_future(lanes.bound("dynamodb", hold, is_long)())
        await within(asyncio.to_thread(held.wait))
        short = asyncio.ensure_future(lanes.bound("dynamodb", put, is_short)())
        assert (
            await within(lanes.bound("sqs", thread_name, is_short)())
            == threading.current_thread().name
        )
        assert order == []
        let_go.set()
        await within(asyncio.gather(slow, short))

    asyncio.run(scenario())
    assert order == ["held", "lane-dynamodb"]


def test_one_service_calls_another_through_the_loop_that_decides() -> None:
    lanes = Lanes()

    async def outer() -> str:
        answer: str = await lanes.bound("dynamodb", thread_name, is_short)()
        return answer

    assert (
        asyncio.run(lanes.bound("cloudformation", outer, is_long)())
        == threading.current_thread().name
    )
