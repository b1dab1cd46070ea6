"""Of several equal requests the first answer counts; the times are of the loop, which are virtual here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError
from pyroclast.kube.lease.lease import first_answer
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime

LOST = ConnectionFailed("lost")
CHANGED = Conflict(409, "Conflict", "changed")


def asked(*script: tuple[float, str | Exception]) -> tuple[Callable[[], Coroutine[None, None, str]], list[str]]:
    """Requests that each take so long and then answer or fail; what became of them."""
    steps, log = iter(script), []

    async def ask() -> str:
        seconds, answer = next(steps)
        log.append("begun")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask, log


@pytest.mark.parametrize(
    ("script", "took", "began", "answer"),
    [
        ([(1, "a")], 1, 0, "a"),
        ([(4, "a"), (9, "b")], 4, 0, "a"),
        ([(99, "a"), (1, "b")], 4, 3, "b"),
        ([(99, "a"), (99, "b"), (1, "c")], 7, 6, "c"),
        ([(8, "a"), (99, "b"), (99, "c")], 8, 0, "a"),
        ([(5, LOST), (3, "b")], 6, 3, "b"),
        ([(6, CHANGED), (6, "b"), (99, "c")], 9, 3, "b"),
    ],
)
async def test_hedged_requests_return_the_first_success_and_cancel_the_rest(
    script: list[tuple[float, str | Exception]], took: float, began: float, answer: str
) -> None:
    ask, log = asked(*script)
    start = asyncio.get_running_loop().time()
    when, found = await first_answer(ask, 3.0, 3)
    assert (asyncio.get_running_loop().time() - start, when - start, found) == (pytest.approx(took), pytest.approx(began), answer)
    ended = sum(seconds <= took - 3.0 * number for number, (seconds, _) in enumerate(script))
    assert log.count("cancelled") == log.count("begun") - ended


@pytest.mark.parametrize(
    ("script", "took", "error"),
    [
        ([(1, LOST)], 1, LOST),
        ([(4, LOST), (4, CHANGED)], 7, CHANGED),
        ([(4, CHANGED), (4, LOST)], 7, CHANGED),
        ([(4, CHANGED), (9, LOST)], 12, CHANGED),
    ],
)
async def test_hedged_requests_that_all_fail_prefer_an_api_error_to_a_lost_connection(
    script: list[tuple[float, str | Exception]], took: float, error: KubeError
) -> None:
    ask, _ = asked(*script)
    start = asyncio.get_running_loop().time()
    with pytest.raises(type(error)) as caught:
        await first_answer(ask, 3.0, 3)
    assert caught.value is error
    assert asyncio.get_running_loop().time() - start == pytest.approx(took)


async def test_cancelling_a_hedged_request_cancels_all_attempts() -> None:
    ask, log = asked((99, "a"), (99, "b"))
    asking = asyncio.ensure_future(first_answer(ask, 3.0, 2))
    await asyncio.sleep(4)
    await ended(asking)
    assert log == ["begun", "begun", "cancelled", "cancelled"]
