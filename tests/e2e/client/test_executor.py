"""`pyroclast_client.Executor` by the contract of `concurrent.futures`, and `torchrun` with a stand-in for the real one."""

from __future__ import annotations

import concurrent.futures
import gc
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import pyroclast.client as pc
from pyroclast.api.types import PODS
from pyroclast.kube.http.client import Client as KubeClient
from pyroclast_client import errors
from pyroclast_client.loops import run

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pytest.fixture(scope="module")
def local() -> Iterator[pc.Client]:
    with pc.local(nodes=2) as client:
        yield client


@pytest.fixture
def executor(local: pc.Client) -> Iterator[pc.Executor]:
    with pc.Executor(cpu="50m") as executor:
        yield executor


def test_executor_submit_passes_positional_and_keyword_arguments(executor: pc.Executor) -> None:
    future = executor.submit(pow, 2, 8)
    assert future.result(200) == 256
    assert executor.submit(dict, fn=1, self=2).result(200) == {"fn": 1, "self": 2}
    assert future.done()
    assert not future.cancel()


def test_map_yields_results_in_order_and_raises_at_the_failed_item(executor: pc.Executor) -> None:
    assert list(executor.map(pow, range(10), range(10))) == list(map(pow, range(10), range(10)))
    results = executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert (next(results), next(results)) == ((0, 1), (0, 1))
    with pytest.raises(ZeroDivisionError) as caught:
        next(results)
    assert isinstance(caught.value.__cause__, errors.TaskError)


def test_map_with_chunksize_runs_one_pod_per_chunk(local: pc.Client, executor: pc.Executor) -> None:
    before = len(local.jobs())
    assert list(executor.map(pow, range(40), range(40), chunksize=10)) == list(map(pow, range(40), range(40)))
    (job,) = local.jobs()[: len(local.jobs()) - before]
    assert job.object()["spec"]["tasks"][0]["replicas"] == 4
    assert job.object()["spec"]["ttlSecondsAfterFinished"] == 3600
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(bool, [1], chunksize=0)


def test_map_raises_timeout_error_after_its_timeout(executor: pc.Executor) -> None:
    with pytest.raises(TimeoutError):
        list(executor.map(time.sleep, [0, 6], timeout=4))


def test_wait_and_as_completed_of_concurrent_futures_accept_executor_futures(executor: pc.Executor) -> None:
    futures = [executor.submit(int, number) for number in range(3)]
    assert {future.result() for future in concurrent.futures.as_completed(futures, 120)} == {0, 1, 2}
    done, pending = concurrent.futures.wait(futures, 120)
    assert (len(done), len(pending)) == (3, 0)


def test_wait_returns_at_the_first_completed_or_failed_future(executor: pc.Executor) -> None:
    long, bad = executor.submit(time.sleep, 300), executor.submit(divmod, 1, 0)
    done, pending = concurrent.futures.wait([long, bad], 120, concurrent.futures.FIRST_EXCEPTION)
    assert (done, pending) == ({bad}, {long})
    assert concurrent.futures.wait([long, bad], 120, concurrent.futures.FIRST_COMPLETED).done == {bad}
    done, pending = concurrent.futures.wait([long], 0.1)
    assert (done, pending) == (set(), {long})
    with pytest.raises(TimeoutError, match=r"1 \(of 2\) futures unfinished"):
        list(concurrent.futures.as_completed([long, bad, bad], 0.1))
    executor.shutdown(cancel_futures=True)


class Falsey(Exception):
    """An exception that is false in conditions."""

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0


def raise_falsey() -> None:
    raise Falsey("as true as others")


def test_future_returns_an_exception_whose_truth_value_is_false(executor: pc.Executor) -> None:
    assert isinstance(executor.submit(raise_falsey).exception(200), Falsey)  # `result` of some Pythons forgets it


def test_calls_submitted_before_shutdown_all_complete(local: pc.Client) -> None:
    executor = pc.Executor(cpu="10m")
    futures = [executor.submit(pow, number, 2) for number in range(20)]
    executor.shutdown()
    assert [future.result(0) for future in futures] == [number**2 for number in range(20)]


def test_call_arguments_are_released_after_the_result(executor: pc.Executor) -> None:
    argument = Argument()
    kept = weakref.ref(argument)
    future = executor.submit(describe, argument)
    del argument
    assert future.result(200) == "an argument"
    deadline = time.monotonic() + 60
    while kept() is not None:
        gc.collect()
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Argument:
    """What a call is given."""


def describe(argument: Argument) -> str:
    return "an argument" if type(argument).__name__ == "Argument" else repr(argument)


def test_callbacks_may_use_the_client(local: pc.Client, executor: pc.Executor) -> None:
    seen: list[int] = []
    over = threading.Event()

    def callback(future: concurrent.futures.Future[int]) -> None:
        seen.append(len(local.jobs()))
        over.set()

    executor.submit(abs, -1).add_done_callback(callback)
    assert over.wait(200)
    assert seen[0] > 0


def test_unpicklable_argument_fails_only_its_own_future(executor: pc.Executor) -> None:
    bad, good = executor.submit(abs, threading.Lock()), executor.submit(abs, -2)
    assert isinstance(bad.exception(120), TypeError)
    assert good.result(200) == 2


def test_submit_raises_after_shutdown_and_pending_futures_complete(local: pc.Client) -> None:
    executor = pc.Executor()
    future = executor.submit(abs, -3)
    executor.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    assert future.result(200) == 3
    executor.shutdown()
    pc.Executor().shutdown()  # of one that was never used


def pods_at_work(local: pc.Client) -> list[str]:
    async def names() -> list[str]:
        items, _ = await (await local.asynchronous.session()).kube.list(PODS, "default")
        return [item["metadata"]["name"] for item in items if item["status"]["phase"] not in {"Succeeded", "Failed"}]

    return run(names())


def test_shutdown_with_cancel_futures_deletes_all_jobs_and_pods(local: pc.Client) -> None:
    executor = pc.Executor(cpu="50m")
    before = {job.uid for job in local.jobs()}
    futures = [executor.submit(time.sleep, 300) for _ in range(3)]
    deadline = time.monotonic() + 60
    while not all(future.running() for future in futures):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(pods_at_work(local)) == 3
    executor.shutdown(wait=True, cancel_futures=True)
    assert all(future.done() for future in futures)
    while {job.uid for job in local.jobs()} - before or pods_at_work(local):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_future_that_has_no_pod_yet_is_cancelled(local: pc.Client) -> None:
    with pc.Executor(cpu="5000") as executor:
        future = executor.submit(abs, 1)
        assert future.cancel()
        assert future.cancelled()
        executor.shutdown(cancel_futures=True)


STAND_IN = """#!{python}
import os, socket, subprocess, sys
flags = dict(each[2:].split("=") for each in sys.argv[1:] if each.startswith("--") and "=" in each)
script = next(each for each in sys.argv if each.endswith(".py"))
rest = sys.argv[sys.argv.index(script) + 1:]
where = (flags["master_addr"], int(flags["master_port"]))
if flags["node_rank"] == "0":
    with socket.create_server(where) as server:
        for _ in range(int(flags["nnodes"]) - 1):
            server.accept()[0].close()
else:
    for _ in range(300):
        try:
            socket.create_connection(where).close()
            break
        except OSError:
            import time; time.sleep(0.1)
    else:
        sys.exit("no rendezvous")
sys.exit(subprocess.call([sys.executable, script, flags["node_rank"], *rest]))
"""


@pytest.fixture
def path_of_torchrun(tmp_path: Path) -> str:
    stand_in = tmp_path / "torchrun"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


def test_torchrun_runs_a_script_on_two_nodes_and_raises_when_it_fails(
    local: pc.Client, path_of_torchrun: str, tmp_path: Path
) -> None:
    script = tmp_path / "train_it.py"
    script.write_text("import sys, json; print(json.dumps(sys.argv[1:]))")
    job = pc.torchrun(script, "--lr", 0.1, nodes=2, per_node=2, env={"PATH": path_of_torchrun}).wait(200)
    assert job.name.startswith("train-it-")
    assert [json.loads(job.logs(index=index)) for index in (0, 1)] == [["0", "--lr", "0.1"], ["1", "--lr", "0.1"]]
    script.write_text("import sys; sys.exit(3)")
    with pytest.raises(errors.JobFailed, match="exit code 3"):
        pc.torchrun(script, env={"PATH": path_of_torchrun}).wait(200)
    with pytest.raises(errors.Usage, match="no_such"):
        pc.torchrun("no_such.py")
    assert os.path.exists(script)


class Counting:
    """Counts the requests of a client but watches, as an observer of them."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        if verb != "watch":
            self.requests.append(f"{verb} {resource}")

    def events(self, resource: str, count: int) -> None: ...

    def incident(self, resource: str, what: str) -> None: ...


@pytest.mark.timeout(600)
def test_a_thousand_calls_need_few_pods_and_few_requests(local: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    monkeypatch.setattr("pyroclast_client.sessions.Client", partial(KubeClient, observer=counting))
    client = pc.Client(namespace="default", image="local", kubeconfig=local.kubeconfig)
    client.asynchronous.python = sys.executable
    with pc.Executor(client=client, cpu="10m") as executor:
        assert sum(executor.map(abs, range(1000), chunksize=10)) == 499_500
    assert len(counting.requests) <= 10, counting.requests
    (job,) = [job for job in client.jobs() if job.object()["spec"]["tasks"][0]["replicas"] == 100]
    assert job.wait(200).status.succeeded == 100
    client.close()
