"""Streams of results and lines end: after an error, after an interrupt, and in the wrong thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyroclast_client import errors, loops
from pyroclast_client.collecting import Collector
from pyroclast_client.podreading import Pod
from pyroclast_client.results import Outcome
from pyroclast_client.runner import sealing
from pyroclast_client.sweeps import AsyncSweep
from pyroclast_client.synchronous import Client


class BrokenJob:
    """A Job whose results cannot be read after the first."""

    async def as_completed(self) -> AsyncGenerator[Outcome]:
        yield Outcome(0, "first")
        raise OSError(116, "Stale file handle")


async def test_as_completed_raises_an_unexpected_error_instead_of_waiting_for_ever() -> None:
    sweep: AsyncSweep[Any] = AsyncSweep(SimpleNamespace(), SimpleNamespace(arguments=((), ())))  # type: ignore[arg-type]
    sweep.parts.append((BrokenJob(), (0, 1)))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        outcomes = sweep.as_completed()
        assert (await anext(outcomes)).value == "first"
        with pytest.raises(OSError, match="Stale file handle"):
            await anext(outcomes)


async def test_a_result_in_a_store_that_cannot_be_read_is_an_error_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object) -> bytes:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(sealing, "got", stale)
    key, text = b"k", sealing.sealed(b"k", "value", "pickle", "store", 0, "uid", b"x")
    pod = Pod("p", "uid", "main", 0, "Succeeded", "", 0, text, "", has_started=True, containers=("main",))
    job = SimpleNamespace(name="j", namespace="n")
    outcome = await Collector(SimpleNamespace(), job, key, "s", "file:///a").one(pod)  # type: ignore[arg-type]
    assert isinstance(outcome.error, errors.ResultGone)
    assert "the store file:///a cannot be read: [Errno 116] Stale file handle" in str(outcome.error)


def test_an_interrupted_stream_is_closed() -> None:
    closed = threading.Event()

    async def lines() -> AsyncGenerator[int]:
        try:
            yield 1
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.05)  # as a request that is being cancelled
            closed.set()

    stream = loops.iterated(lines())
    assert next(stream) == 1
    interrupted = loops.run

    def interrupt(work: Any) -> Any:
        task = asyncio.run_coroutine_threadsafe(work, loops.background_loop())
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loops.background_loop()).result()
        task.cancel()
        loops.run = interrupted  # type: ignore[assignment]
        raise KeyboardInterrupt

    loops.run = interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert closed.is_set()


def test_a_client_that_cannot_connect_says_so_also_behind_its_block(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    user = {"name": "u", "user": {"client-certificate": "/nonexistent", "client-key": "/nonexistent"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    file.write_text(json.dumps({"contexts": [context], "current-context": "c", "clusters": [cluster], "users": [user]}))
    with pytest.raises(errors.NoCluster, match="/nonexistent"), Client(kubeconfig=str(file)) as client:
        client.queues()


def test_the_synchronous_client_in_its_own_event_loop_raises_instead_of_waiting_for_itself() -> None:
    async def nested() -> None:
        loops.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="the synchronous client is used in its own event loop"):
        loops.run(nested())
