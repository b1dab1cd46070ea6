"""CronJobs make Jobs at the times of their schedule, through every service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.support.cluster import Cluster, wait_until


def cron_job(name: str, command: str, **spec: Any) -> str:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", command]}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    template = {"spec": {"tasks": [{"name": "t", "replicas": 1, "template": pod}]}}
    meta = {"name": name}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": meta}
    return json.dumps({**body, "spec": {"schedule": "@every 1s", "jobTemplate": template, **spec}})


def jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("vcjob", "-n", namespace)["items"]
    return found


def reasons(cluster: Cluster, namespace: str) -> set[str]:
    return {event["reason"] for event in cluster.get("events", "-n", namespace)["items"]}


def test_completed_job_of_a_cron_job_is_deleted_beyond_the_history_limit(cluster: Cluster, namespace: str) -> None:
    cluster.create(cron_job("c", "sleep 1", successfulJobsHistoryLimit=0), namespace)
    wait_until(lambda: jobs(cluster, namespace), "the CronJob to make a Job")
    name = jobs(cluster, namespace)[0]["metadata"]["name"]
    wait_until(
        lambda: "lastSuccessfulTime" in cluster.get("cronvcjob", "c", "-n", namespace).get("status", {}), "the Job to be followed"
    )
    wait_until(lambda: name not in [job["metadata"]["name"] for job in jobs(cluster, namespace)], "the Job to be removed")
    wait_until(
        lambda: {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= reasons(cluster, namespace), "the events of both"
    )


def test_cron_example_creates_jobs_repeatedly(cluster: Cluster, namespace: str) -> None:
    often = Path("examples/cron.yaml").read_text().replace("*/1 * * * *", "@every 1s")
    cluster.create(often, namespace)
    wait_until(lambda: len(jobs(cluster, namespace)) > 1, "a second Job")
    first = min(job["metadata"]["name"] for job in jobs(cluster, namespace))
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", f"vcjob/{first}", "--timeout=60s")


def test_cron_job_with_forbid_starts_no_second_job_after_a_controller_restart(cluster: Cluster, namespace: str) -> None:
    cluster.create(cron_job("c", "sleep 600", concurrencyPolicy="Forbid"), namespace)
    wait_until(lambda: jobs(cluster, namespace), "the CronJob to make a Job")
    cluster.kill("job-controller")
    wait_until(lambda: "ForbidConcurrent" in reasons(cluster, namespace), "the controller to come back")
    (job,) = jobs(cluster, namespace)
    status = cluster.get("cronvcjob", "c", "-n", namespace)["status"]
    assert [active["uid"] for active in status["active"]] == [job["metadata"]["uid"]]
    annotations = job["metadata"]["annotations"]
    assert annotations["volcano.sh/cronjob-scheduled-timestamp"].endswith("Z")
    cluster.kubectl("delete", "-n", namespace, "cronvcjob", "c")
    wait_until(lambda: not jobs(cluster, namespace), "the Job to go with its CronJob")
