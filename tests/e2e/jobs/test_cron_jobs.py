"""CronJobs make Jobs at the times of their schedule, through every service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.support.cluster import Cluster, wait_until


def jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("vcjob", "-n", namespace)["items"]
    return found


def test_cron_example_creates_jobs_repeatedly(cluster: Cluster, namespace: str) -> None:
    often = Path("examples/cron.yaml").read_text().replace("*/1 * * * *", "@every 1s")
    cluster.create(often, namespace)
    wait_until(lambda: len(jobs(cluster, namespace)) > 1, "a second Job")
    first = min(job["metadata"]["name"] for job in jobs(cluster, namespace))
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", f"vcjob/{first}", "--timeout=60s")
