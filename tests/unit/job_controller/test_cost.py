"""How many writes what costs: counted, not timed."""

import asyncio
from collections import Counter

import pytest

from pyroclast.api.types import JOBS, POD_GROUPS, PODS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_job_controller.job.controller import JobController

from .cluster import NS, task
from .memory_cluster import MemoryCluster, in_virtual_time, key_of, virtual_cluster


async def _to_running(cluster: MemoryCluster, jobs: int, pods: int, wait: float = 0.0, **spec) -> None:
    for number in range(jobs):
        cluster.job(f"j{number}", task(replicas=pods), **spec)
    await cluster.until(lambda: len(cluster.server.of(POD_GROUPS)) == jobs)
    cluster.admit()
    await cluster.until(lambda: len(cluster.pods()) == jobs * pods)
    await asyncio.sleep(wait)
    cluster.run_pods()
    await cluster.until(lambda: all(cluster.phase(f"j{number}") == "Running" for number in range(jobs)))


@virtual_cluster()
async def test_a_job_of_one_pod_costs_two_writes_of_its_status_until_it_runs(cluster):
    await _to_running(cluster, 10, 1, wait=1.0)
    assert dict(cluster.server.writes) == {
        ("create", "podgroups.scheduling.volcano.sh"): 10,
        ("create", "pods"): 10,
        ("patch", "jobs.batch.volcano.sh"): 20,
    }


def test_watch_events_of_controller_writes_cause_no_reconcile(monkeypatch):
    looks = Counter()
    reconcile = JobController.reconcile

    async def noted(self, key):
        looks[key] += 1
        await reconcile(self, key)

    monkeypatch.setattr(JobController, "reconcile", noted)
    in_virtual_time(lambda cluster: _to_running(cluster, 10, 1, wait=1.0))
    assert looks.total() == 10 * 3  # it was made, let in, and its pod runs


@virtual_cluster()
async def test_a_job_of_a_thousand_pods_costs_little_more_than_its_pods(cluster):
    await _to_running(cluster, 1, 1000, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    await cluster.until(lambda: cluster.status("j0")["running"] == 1000)
    assert sum(cluster.server.writes.values()) <= 1020


@virtual_cluster()
async def test_scaling_down_by_hundreds_costs_one_deletion_each(cluster):
    await _to_running(cluster, 1, 300, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await cluster.until(lambda: cluster.status("j0")["running"] == 300)
    cluster.server.writes.clear()
    spec = {"minAvailable": 1, "tasks": [{**task(replicas=1)}]}
    cluster.server.patch(JOBS, Key(NS, "j0"), {"spec": spec}, PatchKind.MERGE)

    def gone():
        cluster.drain()
        return len(cluster.pods()) == 1 and cluster.status("j0").get("running") == 1

    await cluster.until(gone)
    assert (cluster.phase("j0"), cluster.status("j0").get("retryCount")) == ("Running", None)
    writes = dict(cluster.server.writes)
    assert writes["delete", "pods"] == 299
    assert ("patch", "pods") not in writes
    assert sum(writes.values()) <= 299 + 20


@virtual_cluster()
async def test_first_gangs_are_complete_while_pods_of_later_gangs_are_still_created(cluster):
    for number in range(5):
        cluster.job(f"j{number}", task(replicas=200))
    await cluster.until(lambda: len(cluster.server.of(POD_GROUPS)) == 5)
    cluster.admit()
    made = []
    while len(cluster.pods()) < 1000:
        await asyncio.sleep(0.001)
        made.append(Counter(pod["metadata"]["name"].split("-")[0] for pod in cluster.pods()))
    whole_at = sorted(min((each.total() for each in made if each[name] == 200), default=0) for name in made[-1])
    assert whole_at[0] <= 500  # not all thousand: one after the other, but for what the careful start of each leaves free
    assert whole_at[2] <= 850


@virtual_cluster()
async def test_new_job_is_reconciled_first_after_a_controller_restart(cluster, monkeypatch):
    looked_at = []
    reconcile = JobController.reconcile

    async def noted(self, key):
        looked_at.append(key.name)
        await reconcile(self, key)

    monkeypatch.setattr(JobController, "reconcile", noted)
    await _to_running(cluster, 100, 1)
    await cluster.replica.kill()
    cluster.job("new")
    looked_at.clear()
    await cluster.start_controller()
    await cluster.until(lambda: len(set(looked_at)) == 101)
    assert looked_at[0] == "new"


@pytest.mark.parametrize(("gone", "reads"), [(0, (0, 0)), (1, (0, 1)), (50, (1, 0))])
@virtual_cluster()
async def test_restart_reads_pods_that_ran_and_are_missing_with_one_get_or_one_list(cluster, gone, reads):
    later = {**task("later", replicas=1000), "dependsOn": {"name": ["first"]}}
    cluster.job("j", task("first", replicas=51), later)
    await cluster.until(lambda: len(cluster.server.of(POD_GROUPS)) == 1)
    cluster.admit()
    await cluster.until(lambda: len(cluster.pods()) == 51)
    waits, *others = cluster.pods()
    for pod in others:
        cluster.set_phase(pod, "Running")
    await cluster.until(lambda: cluster.status("j").get("running") == 50)
    await cluster.replica.kill()
    for pod in (waits, *others[:gone]):
        cluster.server.delete(PODS, key_of(pod), grace=0)
    cluster.server.reads.clear()
    await cluster.start_controller()
    await cluster.until(lambda: len(cluster.pods()) == 51)
    assert (cluster.server.reads["list", "pods"], cluster.server.reads["get", "pods"]) == reads
