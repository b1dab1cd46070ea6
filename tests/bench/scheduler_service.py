"""`python -m tests.bench.scheduler_service [--running N] [--jobs J] [--pods P]`: the scheduler before a server without logic.

Told are the time from the start of the process to the first decision, its memory, the pace of binds, its CPU time, the longest
time for which its event loop was held, and the longest time between two renewals of its Lease. 5,000 nodes; requests are not
limited. The machine's pace stands beside it: what the fixed loop of `scheduler_table` took before and after.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from .scheduler_server import Board, serve
from .scheduler_table import loop
from .usage import cpu_seconds, memory

_PATIENCE = 120.0
_HELD = "pyroclast_event_loop_held"
_METRICS = "http://127.0.0.1:18080/metrics"


def main() -> int:
    """Run one load."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler_service", description=__doc__)
    parser.add_argument("--running", type=int, default=0, help="pods that run already, in Jobs of 20")
    parser.add_argument("--jobs", type=int, default=20, help="Jobs that come")
    parser.add_argument("--pods", type=int, default=500, help="of each")
    options = parser.parse_args()
    board = Board(*(multiprocessing.Value(kind, 0) for kind in "iiiiddid"))
    server = multiprocessing.Process(target=serve, args=(board, options.running), daemon=True)
    server.start()
    _until(lambda: bool(board.port.value))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "kubeconfig")
        cluster = f"{{name: c, cluster: {{server: 'http://127.0.0.1:{board.port.value}'}}}}"
        config.write_text(
            f"apiVersion: v1\nkind: Config\nclusters: [{cluster}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
        )
        began = time.monotonic()
        if options.running:  # they wait from the start, for the first decision
            board.pods.value, board.jobs.value = options.pods, options.jobs
        flags = ["--kube-api-qps", "0", "--enable-metrics", "--listen-address", "127.0.0.1:18080", "--log-level", "error"]
        scheduler = subprocess.Popen([sys.executable, "-m", "pyroclast_scheduler", "--kubeconfig", str(config), *flags])
        try:
            _watch(board, options, scheduler, began)
        finally:
            scheduler.terminate()
            scheduler.wait()
            server.terminate()
    return 0


def _watch(board: Board, options: argparse.Namespace, scheduler: subprocess.Popen[bytes], began: float) -> None:
    pid, count = scheduler.pid, options.jobs * options.pods
    _until(lambda: bool(board.is_leading.value), scheduler)
    held = _held_long(_metrics())
    if not options.running:
        time.sleep(2)  # the first cycles
        print(f"memory with {options.running:,} pods      {memory(pid):8.0f} MB")
        pace = _pace()
        cpu, began = cpu_seconds(pid), time.monotonic()
        board.pods.value, board.jobs.value = options.pods, options.jobs
    else:
        cpu = pace = 0.0
    _until(lambda: board.bound.value >= count, scheduler)
    print(f"to the first decision        {board.first.value - began:8.2f} s")
    if not options.running:
        seconds = board.last.value - began
        used = cpu_seconds(pid) - cpu
        print(f"{options.jobs} x {options.pods} pods bound in        {seconds:8.2f} s: {count / seconds:,.0f}/s seen")
        print(f"CPU of the scheduler         {used / count * 1e6:8.0f} µs a pod: {count / used:,.0f}/s on a core of its own")
        pace = (pace + _pace()) / 2
        print(f"a fixed loop took            {pace:8.2f} ms: a pod costs {used / count * 1e3 / pace:.3f} of it")
    time.sleep(3)
    print(f"memory with {options.running + count:,} pods {memory(pid):8.0f} MB")
    page = _metrics()
    held_most, late_most = (_figure(page, f"{name}_max_seconds") * 1000 for name in (_HELD, "pyroclast_event_loop_lag"))
    print(f"event loop held at most      {held_most:8.0f} ms, {late_most:.0f} with waiting for a core; the start included")
    print(f"event loop held over 50 ms   {_held_long(page) - held:8.0f} times since it leads")
    print(f"between two renewals at most {board.renewal.value:8.2f} s")


def _pace() -> float:
    return statistics.median(loop() for _ in range(9))


def _until(what: Callable[[], bool], scheduler: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not what():
        if scheduler is not None and scheduler.poll() is not None:
            raise RuntimeError(f"the scheduler ended with {scheduler.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE:.0f} s")
        time.sleep(0.02)


def _metrics() -> str:
    """The page of metrics, read at once: its figures belong together."""
    try:
        with urllib.request.urlopen(_METRICS, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def _figure(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)", page, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def _held_long(page: str) -> float:
    """How often the event loop was held for more than 50 ms."""
    return _figure(page, f"{_HELD}_seconds_count") - _figure(page, f'{_HELD}_seconds_bucket{{le="0.05"}}')


if __name__ == "__main__":
    sys.exit(main())
