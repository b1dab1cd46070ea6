"""What admission costs a create of a Job on a real API server, as that server's own metrics tell.

    python -m tests.bench.webhooks [--jobs 500] [--in-flight 1]

Jobs of 1 and of 20 tasks are created as dry runs: every webhook is called, nothing is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from pathlib import Path

from pyroclast.api.types import JOBS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.support.cluster import Cluster, running

METRIC = "apiserver_admission_webhook_admission_duration_seconds"
AIM_MILLISECONDS = 6.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.webhooks", description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running("real", Path(folder), nodes=0) as cluster:
        for tasks in (1, 20):
            before = _spent(cluster)
            asyncio.run(_create(cluster, tasks, options.jobs, options.in_flight))
            _print(tasks, before, _spent(cluster))


async def _create(cluster: Cluster, tasks: int, count: int, in_flight: int) -> None:
    container = {"name": "main", "image": "busybox:1.37", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "1"}}}

    async with Client(load_config(str(cluster.kubeconfig)), max_in_flight=in_flight) as client, asyncio.TaskGroup() as group:
        for number in range(count):
            template = {"spec": {"restartPolicy": "Never", "containers": [container | {"args": [str(number)]}]}}
            job = {
                "apiVersion": JOBS.api_version,
                "kind": "Job",
                "metadata": {"name": f"dry-{number}"},
                "spec": {"tasks": [{"name": f"t{task}", "replicas": 1, "template": template} for task in range(tasks)]},
            }
            group.create_task(client.create(JOBS, job, namespace="default", dry_run=True))


def _spent(cluster: Cluster) -> dict[tuple[str, str], float]:
    """Seconds and calls so far, by webhook and `sum` or `count`."""
    spent: dict[tuple[str, str], float] = {}
    for line in cluster.kubectl("get", "--raw", "/metrics").splitlines():
        found = re.match(rf'{METRIC}_(sum|count){{name="(\w+)job\.volcano\.sh".*}} (\S+)', line)
        if found:
            spent[found[2], found[1]] = spent.get((found[2], found[1]), 0.0) + float(found[3])
    return spent


def _print(tasks: int, before: dict[tuple[str, str], float], after: dict[tuple[str, str], float]) -> None:
    means = {
        webhook: 1e3
        * (after[webhook, "sum"] - before.get((webhook, "sum"), 0.0))
        / (after[webhook, "count"] - before.get((webhook, "count"), 0.0))
        for webhook in ("mutate", "validate")
    }
    total = sum(means.values())
    verdict = "met" if total < AIM_MILLISECONDS else "MISSED"
    each = ", ".join(f"{webhook} {mean:.2f} ms" for webhook, mean in means.items())
    print(f"Job of {tasks:2} tasks: {each}, together {total:.2f} ms on average ({verdict}: below {AIM_MILLISECONDS:.0f} ms)")


if __name__ == "__main__":
    main()
