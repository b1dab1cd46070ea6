"""How an array runs: its time, the size of its object, the writes per index, and the memory and CPU of the job controller.

    python -m tests.bench.arrays [--control-plane real|embedded] [--mode simulated|process] [--nodes 50] [--indexes 10000]
        [--parallel 64] [--seconds 0] [--kills 0]

Each pod sleeps for `--seconds`. With `--kills`, the job controller is killed so often, and each index must still run once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyroclast.api.types import JOBS, NAMESPACES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.support.cluster import Cluster, running

from .throughput import cpu_of_all, print_writes, used_since
from .usage import memory

LONGEST = 3600.0
CONTROLLER = "job-controller"
KEY = Key("arrays", "many")


def main() -> None:
    options = _options()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(options.control_plane, Path(folder), nodes=options.nodes, mode=options.mode) as cluster,
    ):
        asyncio.run(_measure(cluster, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.arrays", description=__doc__)
    parser.add_argument("--control-plane", choices=("real", "embedded"), default="embedded")
    parser.add_argument("--mode", choices=("simulated", "process"), default="simulated")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--indexes", type=int, default=10_000)
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--kills", type=int, default=0)
    return parser.parse_args()


async def _measure(cluster: Cluster, options: argparse.Namespace) -> None:
    async with Client(load_config(str(cluster.kubeconfig))) as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEY.namespace}})
        before, idle = cpu_of_all(cluster), memory(cluster.pids[CONTROLLER])
        began, moment = time.monotonic(), time.time()
        await client.create(JOBS, _job(options), namespace=KEY.namespace)
        largest, kills, found = 0, 0, {}
        while (found.get("status") or {}).get("state", {}).get("phase") not in ("Completed", "Failed"):
            await asyncio.sleep(0.5)
            found = await client.get(JOBS, KEY)
            largest = max(largest, len(json.dumps(found)))
            done = (found.get("status") or {}).get("succeeded", 0)
            if kills < options.kills and done > (kills + 1) * options.indexes // (options.kills + 2):
                await asyncio.to_thread(cluster.kill, CONTROLLER)
                kills += 1
            assert time.monotonic() - began < LONGEST, "the array does not end"
        seconds = time.monotonic() - began
    _print(cluster, options, found, seconds, largest)
    pid = cluster.pids[CONTROLLER]
    print(f"  memory of controller  {idle:8.0f} MB before, {memory(pid, 'VmHWM'):.0f} MB at most")
    if not options.kills:
        used = used_since(before, cpu_of_all(cluster))
        print(f"  CPU of all            {sum(used.values()):8.1f} s, without the processes of pods; ms per index:")
        print("   ", ", ".join(f"{name} {cpu / options.indexes * 1e3:.2f}" for name, cpu in used.items()))
    print_writes(cluster, moment, options.indexes)


def _print(cluster: Cluster, options: argparse.Namespace, found: dict[str, Any], seconds: float, largest: int) -> None:
    created = cluster.audit.created("pods", KEY.namespace)
    times = Counter(created.values())
    kinds = f"{options.nodes} {options.mode} nodes, {cluster.control_plane} control plane, {options.kills} kills"
    print(f"{options.indexes} indexes at {options.parallel}, pods of {options.seconds:g} s, {kinds}")
    print(f"  phase                 {found['status']['state']['phase']}: {found['status']['state'].get('message', '')}")
    print(f"  time                  {seconds:8.1f} s, {options.indexes / seconds:.0f} indexes/s")
    print(f"  largest object        {largest / 1000:8.1f} kB")
    print(f"  state at the end      {json.dumps(found['status'].get('arrays'))[:200]}")
    print(f"  pods made             {len(created):8d} names, by times made: {dict(times)}")


def _job(options: argparse.Namespace) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {
        "name": "main",
        "image": "busybox:1.37",
        "command": ["sleep", f"{options.seconds:g}"],
        "resources": {"requests": requests},
    }
    array = {"indexes": f"0-{options.indexes - 1}", "maxParallel": options.parallel}
    task = {"name": "one", "array": array, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": KEY.name}}
    return {**body, "spec": {"schedulerName": "volcano", "queue": "default", "tasks": [task]}}


if __name__ == "__main__":
    main()
