"""Warm workers: what a pool does with the calls of a program, with workers that end, and with strangers at its port."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyroclast.client as pc
from pyroclast_client import errors, pools
from tests.e2e.support.cluster import wait_until

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pytest.fixture(scope="module")
def local() -> Iterator[pc.Client]:
    with pc.local(nodes=2) as client:
        yield client


@pytest.fixture(scope="module")
def pool(local: pc.Client) -> Iterator[pc.Pool]:
    with pc.Pool(workers=2, cpu="50m", retries=1) as pool:
        yield pool


def once(marker: Path, end: Callable[[], Any]) -> Callable[[], int]:
    """A call that ends its worker the first time."""

    def call() -> int:
        with marker.open("a") as file:
            file.write("x")
        if len(marker.read_text()) == 1:
            end()
        return len(marker.read_text())

    return call


def test_calls_run_in_the_same_few_processes_and_keep_what_they_loaded(local: pc.Client, pool: pc.Pool) -> None:
    values = list(pool.map(lambda x: (x + 1, os.getpid()), range(500)))
    assert [value for value, _ in values] == list(range(1, 501))
    assert len({pid for _, pid in values}) <= 2
    assert pool.submit(len, b"x" * (3 << 20)).result(60) == 3 << 20
    with pytest.raises(ZeroDivisionError) as caught:
        pool.submit(divmod, 1, 0).result(60)
    assert isinstance(caught.value.__cause__, errors.TaskError)
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        pool.submit(lambda: (each for each in ())).result(60)
    assert len(local.jobs()) == 1
    wait_until(lambda: "2 of 2 workers are connected" in pool.explain(), "both workers")


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os.kill(os.getpid(), signal.SIGTERM)])
def test_a_call_whose_worker_ends_runs_again(pool: pc.Pool, tmp_path: Path, end: Callable[[], Any]) -> None:
    assert pool.submit(once(tmp_path / "marker", end)).result(100) == 2


def test_a_killed_call_without_retries_fails_and_the_others_go_on(local: pc.Client, tmp_path: Path) -> None:
    with pc.Pool(workers=1, cpu="50m", timeout=3) as pool:
        killed = pool.submit(once(tmp_path / "a", lambda: os.kill(os.getpid(), signal.SIGKILL)))
        late = pool.submit(once(tmp_path / "b", lambda: time.sleep(600)))
        evicted = pool.submit(once(tmp_path / "c", lambda: os.kill(os.getpid(), signal.SIGTERM)))
        with pytest.raises(errors.JobFailed, match="was killed, ran out of memory"):
            killed.result(100)
        with pytest.raises(errors.TimedOut, match="longer than its timeout of 3 s"):
            late.result(100)
        assert evicted.result(100) == 2  # an eviction is no failure of the call
    assert [len((tmp_path / name).read_text()) for name in "ab"] == [1, 1]


def test_strangers_at_the_port_get_nothing_and_cost_little(local: pc.Client, pool: pc.Pool) -> None:
    assert pool.submit(abs, -1).result(100) == 1
    (worker,) = list(pool._workers)[:1]
    address = worker.writer.get_extra_info("sockname")
    for greeting in (b"GET / HTTP/1.1\r\n\r\n" * 10, bytes(64)):
        with socket.create_connection(address, timeout=20) as stranger:
            assert len(stranger.recv(100)) == 32  # a nonce
            stranger.sendall(greeting)
            assert stranger.recv(100) == b""
    with contextlib.ExitStack() as silent:
        for _ in range(pools.MOST_STRANGERS + 20):
            silent.enter_context(socket.create_connection(address, timeout=20))
        assert pool.submit(abs, -2).result(100) == 2
    assert pool.submit(abs, -3).result(100) == 3


def test_an_idle_pool_gives_its_pods_back_and_starts_new_ones_for_the_next_call(local: pc.Client) -> None:
    with pc.Pool(workers=2, cpu="50m", idle=0.5) as pool:
        assert pool.submit(abs, -1).result(100) == 1
        job = local.jobs()[0]
        wait_until(lambda: job.phase == "Completed", "the workers to leave")
        assert pool.submit(abs, -2).result(100) == 2
        assert local.jobs()[0].name != job.name


def test_a_cancelled_pool_leaves_no_pod_and_one_that_somebody_ends_says_so(local: pc.Client) -> None:
    pool = pc.Pool(workers=1, cpu="50m")
    futures = [pool.submit(time.sleep, 600) for _ in range(3)]
    wait_until(futures[0].running, "the first call to run")
    assert futures[2].cancel()
    pool.shutdown(cancel_futures=True)
    for future in futures:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)
    pool = pc.Pool(workers=1, cpu="50m")
    future = pool.submit(time.sleep, 600)
    wait_until(future.running, "the call to run")
    local.jobs()[0].cancel()
    with pytest.raises(errors.JobFailed, match="of the pool ended as Terminated"):
        future.result(100)
    pool.shutdown()


def test_workers_that_cannot_reach_the_program_say_where_they_tried(local: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    served = pools._served
    monkeypatch.setattr(pools, "_served", lambda host, port, *rest: served(host, 1, *rest))  # where nobody listens
    with (
        pc.Pool(workers=1, cpu="50m") as pool,
        pytest.raises(ConnectionError, match=r"cannot be reached at 127.0.0.1:1.*give the pool its address as `host=`"),
    ):
        pool.submit(abs, -1).result(200)
