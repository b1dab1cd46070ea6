"""An engine that answers any body, and what must hold for each answer.

As a program it feeds the engine with bytes that atheris makes up: `python -m tests.unit.admission.fuzzing -runs=5000`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from pyroclast.rules.lookups import QueueView
from pyroclast_admission.engine import Engine, Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS
from tests.bench.admission_server import everybody, known, reader

__all__ = ["MAX_SECONDS", "PATHS", "answered", "engine"]

PATHS = [webhook.path for webhook in WEBHOOKS]
MAX_SECONDS = 0.1


def engine() -> Engine:
    state = known(QueueView("closed", "root", "Closed"), QueueView("parent", "root", "Open"), QueueView("leaf", "parent", "Open"))
    return Engine(
        WEBHOOKS,
        lambda: state,
        reader(state),
        authorize=everybody,
        overload=Overload(),
        metrics=ReviewMetrics(CollectorRegistry()),
    )


async def answered(fuzzed: Engine, path: str, body: bytes) -> dict[str, Any] | None:
    """The answer to `body`; None for one that was refused as a request. Raises when it is not as it must be."""
    gc.disable()  # the service freezes what it has loaded: what else a test run holds is not looked through in its time
    try:
        started = time.process_time()
        reply = await fuzzed.reply(path, body)
        took = time.process_time() - started
    finally:
        gc.enable()
    assert took < MAX_SECONDS, f"{took} s for {body[:2000]!r}"
    if reply.status == 400:
        assert reply.content_type.startswith("text/plain")
        return None
    assert reply.status == 200
    answer: dict[str, Any] = orjson.loads(reply.body)
    response = answer["response"]
    assert isinstance(response["uid"], str)
    assert response["allowed"] is ("status" not in response)
    if "status" in response:
        assert response["status"]["message"]
    return answer


def _main() -> None:
    import atheris

    fuzzed = engine()
    loop = asyncio.new_event_loop()

    def one(data: bytes) -> None:
        path = PATHS[data[0] % len(PATHS)] if data else PATHS[0]
        loop.run_until_complete(answered(fuzzed, path, data[1:]))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    _main()
