"""The real submitit, by the executor `pyroclast` that it finds by its entry point."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import submitit

import pyroclast.client as pc

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # pods do not have this file

Wait = Callable[[Callable[[], object]], None]


@pytest.fixture
def executor(client: pc.Client, tmp_path: Path) -> Any:
    executor = submitit.AutoExecutor(folder=tmp_path / "%j", cluster="pyroclast")
    executor.update_parameters(timeout_min=5, cpus_per_task=1, name="trial", pyroclast_python=sys.executable)
    return executor


def test_functions_are_submitted_and_their_results_read(client: pc.Client, executor: Any) -> None:
    job = executor.submit(pow, 2, 8)
    assert job.result() == 256
    assert job.state == "COMPLETED"
    assert job.job_id.startswith("trial-")
    assert client.job(job.job_id).phase == "Completed"


def test_arrays_and_batches_run(executor: Any) -> None:
    assert [job.result() for job in executor.map_array(pow, [1, 2, 3], [2, 2, 2])] == [1, 4, 9]
    with executor.batch():
        jobs = [executor.submit(abs, -number) for number in range(2)]
    assert [job.result() for job in jobs] == [0, 1]


def test_an_array_runs_only_so_many_jobs_at_a_time(executor: Any, tmp_path: Path) -> None:
    def at_once(number: int) -> int:
        (tmp_path / f"{number}.now").touch()
        time.sleep(0.5)
        found = len(list(tmp_path.glob("*.now")))
        (tmp_path / f"{number}.now").unlink()
        return found

    executor.update_parameters(pyroclast_array_parallelism=1)
    assert [job.result() for job in executor.map_array(at_once, [1, 2, 3])] == [1, 1, 1]


def test_an_error_is_told_with_its_traceback(executor: Any) -> None:
    job = executor.submit(divmod, 1, 0)
    with pytest.raises(submitit.core.utils.FailedJobError, match="ZeroDivisionError"):
        job.result()


def test_several_nodes_are_a_gang(executor: Any) -> None:
    def rank() -> int:
        return int(submitit.JobEnvironment().global_rank)

    executor.update_parameters(nodes=2, tasks_per_node=2)
    assert executor.submit(rank).results() == [0, 1, 2, 3]


def met(needs_torch: bool) -> tuple[str, int, int, float]:
    """What the ranks of a distributed program see of each other, by torch or by the socket on which torch would meet."""
    import os
    import socket

    env = submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False)
    if needs_torch:
        import torch

        torch.distributed.init_process_group("gloo")
        total = torch.tensor([float(env.rank)])
        torch.distributed.all_reduce(total)
        return env.master_addr, env.rank, int(os.environ["LOCAL_RANK"]), float(total)
    address = (env.master_addr, env.master_port)
    if env.rank == 0:
        with socket.create_server(address) as server:
            total = sum(server.accept()[0].recv(1)[0] for _ in range(env.world_size - 1))
            return env.master_addr, env.rank, env.local_rank, total
    while True:
        try:
            with socket.create_connection(address) as connection:
                connection.send(bytes([env.rank]))
                return env.master_addr, env.rank, env.local_rank, 6
        except ConnectionRefusedError:
            time.sleep(0.1)


def test_all_ranks_meet_at_the_host_of_the_first(executor: Any) -> None:
    executor.update_parameters(nodes=2, tasks_per_node=2)
    job = executor.submit(met, importlib.util.find_spec("torch") is not None)
    assert job.results() == [(f"{job.job_id}-main-0.{job.job_id}", rank, rank % 2, 6) for rank in range(4)]


def test_a_job_is_cancelled(executor: Any, wait_until: Wait) -> None:
    job = executor.submit(time.sleep, 600)
    job.cancel()
    wait_until(lambda: job.state == "CANCELLED")
    assert job.done()


class Counter(submitit.helpers.Checkpointable):
    """Counts up to a number, and knows from where it went on."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, until: int) -> tuple[int, int]:
        started = self.done
        while self.done < until:
            self.done += 1
            print("at", self.done, flush=True)
            time.sleep(0.1)
        return started, self.done


def test_a_preempted_function_goes_on_from_its_checkpoint(
    executor: Any, wait_until: Wait, delete_pod: Callable[[str], None]
) -> None:
    job = executor.submit(Counter(), 30)
    wait_until(lambda: "at 5" in (job.stdout() or ""))
    delete_pod(f"{job.job_id}-main-0")
    started, done = job.result()
    assert started >= 5
    assert done == 30
