"""A budget from its annotation to its end: new gangs wait, what runs ends, a larger one lets in, and nobody is held blindly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyroclast.api.budgets import read_spent
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT
from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.support.cluster import Cluster, running, wait_until

UNKNOWN_SECONDS = 20
LET_IN_SECONDS = 5
"""After so long at most a gang is let in by a budget that was raised."""

LIMIT = 0.001
"""Hours of a cpu, so 3.6 s."""


@pytest.fixture
def hurried(control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A control plane whose recorder writes each second, and whose scheduler loses patience soon."""
    monkeypatch.setenv("PYROCLAST_BUDGET_PERIOD", "1s")
    monkeypatch.setenv("PYROCLAST_BUDGET_UNKNOWN_AFTER", f"{UNKNOWN_SECONDS}s")
    with running(control_plane, tmp_path, nodes=2) as cluster:
        yield cluster


def budget(hours: float) -> str:
    return json.dumps({"period": "year", "limits": {"cpu": f"{hours}h"}})


def message(cluster: Cluster, name: str) -> str:
    return str(cluster.get("vcjob", name, "-n", "default").get("status", {}).get("state", {}).get("message"))


def is_let_in(cluster: Cluster, job_name: str) -> bool:
    groups = cluster.get("podgroups", "-n", "default")["items"]
    (group,) = (each for each in groups if each["metadata"]["ownerReferences"][0]["name"] == job_name)
    return (group.get("status") or {}).get("phase") in {"Inqueue", "Running", "Completed"}


def events(cluster: Cluster) -> set[str]:
    found = cluster.get("events", "-n", "default")["items"]
    return {each["reason"] for each in found if each["involvedObject"]["kind"] == "Queue"}


def submit(cluster: Cluster, name: str, seconds: int) -> None:
    cluster.create(job(name, command=["sleep", str(seconds)], queue="team", cpu="1"))


def spent(cluster: Cluster) -> float:
    annotations = cluster.get("queue", "team")["metadata"].get("annotations") or {}
    found = read_spent(annotations.get(QUEUE_BUDGET_SPENT, ""))
    return 0.0 if found is None else found.amounts["cpu"]


def test_queue_with_a_spent_budget_admits_no_gang_until_the_budget_is_raised_or_unknown(hurried: Cluster) -> None:
    cluster = hurried
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {}}
    refused = {**body, "metadata": {"name": "team", "annotations": {QUEUE_BUDGET: '{"period":"moon"}'}}}
    assert 'period: Invalid value: "moon": is unknown' in cluster.refused("create", "-f", "-", stdin=json.dumps(refused))
    made = {**body, "metadata": {"name": "team", "annotations": {QUEUE_BUDGET: budget(LIMIT)}}}
    cluster.create(json.dumps(made))
    assert QUEUE_BUDGET_SPENT in cluster.refused("annotate", "queue", "team", "--overwrite", f"{QUEUE_BUDGET_SPENT}={{}}")

    submit(cluster, "first", 8)
    wait_until(lambda: spent(cluster) >= LIMIT, "the budget to be used up")
    submit(cluster, "second", 1)
    wait_until(
        lambda: "BudgetSpent: not now: the budget of queue team for this year is used up" in message(cluster, "second"),
        "it to wait",
    )
    assert "the next one begins at 20" in message(cluster, "second")
    wait_until(lambda: "BudgetNearlySpent" in events(cluster), "the queue to be told")
    wait_until(lambda: phase_of(cluster, "default", "first") == "Completed", "what runs to end by itself")
    assert phase_of(cluster, "default", "second") == "Pending"
    assert not is_let_in(cluster, "second")

    cluster.kubectl("annotate", "queue", "team", "--overwrite", f"{QUEUE_BUDGET}={budget(9)}")
    wait_until(lambda: is_let_in(cluster, "second"), "it to be let in by a larger budget", seconds=LET_IN_SECONDS)
    wait_until(lambda: phase_of(cluster, "default", "second") == "Completed", "it to run once there is a larger budget")
    assert 'pyroclast_budget_spent_ratio{queue="team",resource="cpu"}' in cluster.metrics("scheduler")

    with cluster.standing_aside("recorder"):
        cluster.kubectl("annotate", "queue", "team", "--overwrite", f"{QUEUE_BUDGET}={budget(LIMIT)}")
        wait_until(lambda: "BudgetUnknown" in events(cluster), "the queue to be told that nobody counts", seconds=90)
        submit(cluster, "third", 1)
        wait_until(lambda: phase_of(cluster, "default", "third") == "Completed", "it to be let in although nobody counts")
