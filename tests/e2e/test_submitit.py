"""The real submitit, where it is installed, by the executor `pyroclast` of the Python client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyroclast.client as pc
from tests.e2e.cluster import wait_until
from tests.e2e.test_client_functions import delete_pod

submitit = pytest.importorskip("submitit", reason="submitit is not on this machine: `pip install submitit`")

pytestmark = [pytest.mark.thirdparty, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def local() -> Iterator[pc.Client]:
    with pc.local(nodes=2) as client:
        yield client


@pytest.fixture
def executor(local: pc.Client, tmp_path: Path) -> Any:
    executor = submitit.AutoExecutor(folder=tmp_path / "%j", cluster="pyroclast")
    executor.update_parameters(timeout_min=5, cpus_per_task=1, name="trial", pyroclast_python=sys.executable)
    return executor


def test_functions_are_submitted_and_their_results_read(local: pc.Client, executor: Any) -> None:
    job = executor.submit(pow, 2, 8)
    assert job.result() == 256
    assert job.state == "COMPLETED"
    assert job.job_id.startswith("trial-")
    assert local.job(job.job_id).phase == "Completed"


def test_arrays_and_batches_run(executor: Any) -> None:
    assert [job.result() for job in executor.map_array(pow, [1, 2, 3], [2, 2, 2])] == [1, 4, 9]
    with executor.batch():
        jobs = [executor.submit(abs, -number) for number in range(2)]
    assert [job.result() for job in jobs] == [0, 1]


def test_an_error_is_told_with_its_traceback(executor: Any) -> None:
    job = executor.submit(divmod, 1, 0)
    with pytest.raises(submitit.core.utils.FailedJobError, match="ZeroDivisionError"):
        job.result()


def test_several_nodes_are_a_gang(executor: Any) -> None:
    def rank() -> int:
        return int(submitit.JobEnvironment().global_rank)

    executor.update_parameters(nodes=2)
    assert executor.submit(rank).results() == [0, 1]
    with pytest.raises(ValueError, match="tasks_per_node"):
        executor.update_parameters(tasks_per_node=2)


def test_a_job_is_cancelled(executor: Any) -> None:
    import time

    job = executor.submit(time.sleep, 600)
    job.cancel()
    deadline = time.monotonic() + 120
    while job.state != "CANCELLED":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert job.done()


class Counter(submitit.helpers.Checkpointable):  # type: ignore[misc]
    """Counts up to a number, and knows from where it went on."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, until: int) -> tuple[int, int]:
        import time

        started = self.done
        while self.done < until:
            self.done += 1
            print("at", self.done, flush=True)
            time.sleep(0.1)
        return started, self.done


def test_a_preempted_function_goes_on_from_its_checkpoint(local: pc.Client, executor: Any) -> None:
    job = executor.submit(Counter(), 60)
    wait_until(lambda: "at 5" in (job.stdout() or ""), "the count to begin", seconds=100)
    delete_pod(local, f"{job.job_id}-main-0")
    started, done = job.result()
    assert started >= 5
    assert done == 60
