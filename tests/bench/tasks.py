"""What a call of a Python function costs: CPU time of all processes, latency and calls per second, beside two peers.

    python -m tests.bench.tasks [--rounds 3] [--calls 2000] [--pods 20] [--without-dask]

The rows alternate, so that the machine is the same for all. `run` and `Executor` start a pod for each call, on a control plane
of this machine whose nodes run processes. `Pool`, Dask and `ProcessPoolExecutor` have two workers each, which run all calls.
CPU time has that of the client, of all services, of the pods and of the workers, with the start of the workers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

WORKERS = 2
LATENCIES = 20
DASK = """
import json, sys, time
from distributed import Client, LocalCluster
if __name__ == "__main__":
    calls, latencies = int(sys.argv[1]), int(sys.argv[2])
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.submit(abs, -1).result()
        began = time.perf_counter()
        client.gather(client.map(abs, range(-calls, 0), pure=False))
        seconds = time.perf_counter() - began
        waits = []
        for number in range(latencies):
            began = time.perf_counter()
            client.submit(abs, -number, pure=False).result()
            waits.append(time.perf_counter() - began)
    print(json.dumps([seconds, waits]))
"""


def measured(executor: Executor, calls: int) -> tuple[float, list[float]]:
    """Seconds of `calls` calls at once by warm workers, and of single calls."""
    executor.submit(abs, -1).result()
    began = time.perf_counter()
    list(executor.map(abs, range(-calls, 0)))
    seconds = time.perf_counter() - began
    return seconds, [timed(lambda: executor.submit(abs, -1).result()) for _ in range(LATENCIES)]


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cpu_of_tree(root: int) -> float:
    """CPU seconds of a process, its descendants, and all that they waited for."""
    fields: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
    chosen, size = {root}, 0
    while len(chosen) > size:
        size = len(chosen)
        chosen |= {pid for pid, each in fields.items() if int(each[1]) in chosen}
    ticks = sum(int(fields[pid][place]) for pid in chosen if pid in fields for place in (11, 12, 13, 14))
    return ticks / os.sysconf("SC_CLK_TCK")


def own_cpu() -> float:
    return sum(
        used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tasks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--without-dask", action="store_true")
    options = parser.parse_args()
    import pyroclast.client as pc

    dask = None if options.without_dask else _environment_of_dask()
    with tempfile.TemporaryDirectory() as folder, pc.local(nodes=1) as local:
        script = Path(folder) / "peer.py"
        script.write_text(DASK)
        keeper = local._keeper
        assert keeper is not None

        def one_by_one() -> tuple[float, list[float]]:
            task = pc.task(cpu="50m")(time.time)
            waits, firsts = [], []
            for _ in range(LATENCIES // 2):
                submitted = time.time()
                firsts.append(task.run().result() - submitted)
                waits.append(time.time() - submitted)
            print(f"    submitted to the first line of the function: {statistics.median(firsts):.2f} s")
            return sum(waits), waits

        def pods() -> tuple[float, list[float]]:
            with pc.Executor(cpu="50m") as executor:
                return timed(lambda: list(executor.map(abs, range(options.pods)))), []

        def pool() -> tuple[float, list[float]]:
            with pc.Pool(workers=WORKERS, cpu="50m") as executor:
                return measured(executor, options.calls)

        def processes() -> tuple[float, list[float]]:
            with ProcessPoolExecutor(WORKERS) as executor:
                return measured(executor, options.calls)

        def peer() -> tuple[float, list[float]]:
            command = [str(dask), str(script), str(options.calls), str(LATENCIES)]
            seconds, waits = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            return seconds, waits

        rows: dict[str, tuple[Callable[[], tuple[float, list[float]]], int]] = {
            "run, one after another": (one_by_one, LATENCIES // 2),
            "Executor, a pod each": (pods, options.pods),
            "Pool": (pool, options.calls),
            "ProcessPoolExecutor": (processes, options.calls),
            **({"Dask LocalCluster": (peer, options.calls)} if dask else {}),
        }
        pc.task(cpu="50m")(abs).run(-1).result()
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows}
        for _ in range(options.rounds):
            for name, (work, calls) in rows.items():
                before, others = own_cpu(), cpu_of_tree(keeper.pid)
                seconds, waits = work()
                cpu = own_cpu() - before + cpu_of_tree(keeper.pid) - others
                found[name].append((cpu / calls * 1e3, calls / seconds, statistics.median(waits or [0.0]) * 1e3))
    head = f"{'':26}{'CPU ms a call':>14}{'calls/s':>10}{'latency ms':>12}"
    print(f"{head}   medians of {options.rounds} rounds, {os.cpu_count()} cores")
    for name, rounds in found.items():
        cpu, rate, wait = (statistics.median(each[place] for each in rounds) for place in range(3))
        print(f"{name:26}{cpu:14.2f}{rate:10.0f}{wait:12.1f}")


def _environment_of_dask() -> Path | None:
    from tests.third_party.environments import NotInstalled, environment

    try:
        return environment("dask")
    except NotInstalled as error:
        print(f"without Dask: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
