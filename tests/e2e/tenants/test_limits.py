"""Numbers that a user writes stop nobody: pods of one Job, Jobs of one person, and turns in the creation of pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyroclast.api.keys import QUEUE_PERSON_LIMITS, SERVICE_CLASS
from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.e2e.support.shell import Shell
from tests.e2e.support.tenants import User, with_role
from tests.e2e.tenants.conftest import Tenants, job_of, let_use
from tests.e2e.tenants.test_queues import EDITOR, queue_of

MOST = 2_147_483_647


def limited(cluster: Cluster, **limits: Any) -> str:
    """The name of a new queue for everyone, with limits of each person."""
    queue = queue_of(cluster, **{QUEUE_PERSON_LIMITS: json.dumps(limits)})
    let_use(cluster, queue, "--group=system:authenticated")
    return queue


def cause(cluster: Cluster, user: User, name: str) -> str:
    return json.dumps(cluster.get("vcjob", name, "-n", user.namespace).get("status") or {})


def test_a_job_of_two_billion_pods_is_refused_in_every_form(tenants: Tenants) -> None:
    alice = with_role(tenants.alice, EDITOR)
    huge = job_of("huge", pods=1)
    huge["spec"]["tasks"][0]["replicas"] = MOST
    assert "50000" in alice.refused(huge)
    assert "50000" in alice.refused({**huge, "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"})
    many = {"replicatedJobs": [{"name": "a", "replicas": MOST, "templateSpec": job_of("a")["spec"]}]}
    hyper = {"apiVersion": "training.volcano.sh/v1alpha1", "kind": "HyperJob", "metadata": {"name": "huge"}, "spec": many}
    assert "at most 10000" in alice.refused(hyper)


@pytest.mark.parametrize("field", ["nodeName", "schedulerName"])
def test_no_job_evades_its_queue_by_the_node_or_the_scheduler_of_its_pods(tenants: Tenants, field: str) -> None:
    alice = with_role(tenants.alice, EDITOR)
    job = job_of("evades")
    job["spec"]["tasks"][0]["template"]["spec"][field] = "other"
    assert f"template.spec.{field}" in alice.refused(job)
    assert f"template.spec.{field}" in alice.refused({**job, "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"})
    cron = {"apiVersion": job["apiVersion"], "kind": "CronJob", "metadata": job["metadata"]}
    assert f"template.spec.{field}" in alice.refused(
        {**cron, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job["spec"]}}}
    )


def test_the_pods_of_a_large_job_do_not_delay_the_job_of_another_tenant(cluster: Cluster, tenants: Tenants) -> None:
    large = job_of("large", cpu="1m")
    large["spec"]["tasks"][0]["replicas"] = 2_000
    tenants.alice.create(large)
    wait_until(lambda: cluster.get("pods", "-n", tenants.alice.namespace)["items"], "the first pods of alice")
    tenants.bob.create(job_of("small", cpu="1m"))
    wait_until(lambda: cluster.get("pods", "-n", tenants.bob.namespace)["items"], "the pod of bob")
    assert len(cluster.get("pods", "-n", tenants.alice.namespace)["items"]) < 2_000
    tenants.alice.said("vcctl", "job", "delete", "-N", "large", "-n", tenants.alice.namespace)


def test_a_job_above_the_limit_of_its_person_waits_until_another_ends(cluster: Cluster, tenants: Tenants) -> None:
    alice, bob = tenants
    queue = limited(cluster, runningJobs=1)
    alice.create(job_of("first", queue=queue))
    wait_until(lambda: alice.phase("first") == "Running", "the first Job of alice")
    alice.create(job_of("second", queue=queue))
    told = f"PersonLimit: not now: {alice.user} has 1 of 1 running Jobs in queue {queue}: {alice.namespace}/first"
    wait_until(lambda: told in cause(cluster, alice, "second"), "the second Job to wait for the limit")
    bob.create(job_of("first", queue=queue))
    wait_until(lambda: bob.phase("first") == "Running", "the Job of bob, whose own limit is not reached")
    table = Shell(cluster.kubeconfig, alice.namespace).said("vcctl", "limits", queue)  # a RoleBinding does not show queues
    row = next(line for line in table.splitlines() if alice.user in line)
    assert row.split()[-2:] == ["1", "1"]
    alice.said("vcctl", "job", "delete", "-N", "first", "-n", alice.namespace)
    wait_until(lambda: alice.phase("second") == "Running", "the second Job to start in place of the first")


def test_further_waiting_jobs_and_too_long_ones_are_refused(cluster: Cluster, tenants: Tenants) -> None:
    alice, bob = tenants
    queue = limited(cluster, runningJobs=0, waitingJobs=1, runTime="1h", classes={"long": {"runTime": "2h"}})
    job = job_of("a", queue=queue)

    def is_counted() -> bool:  # from now on, the Jobs of this cluster are followed
        try:
            alice.create(job)
        except KubectlError as error:
            if "not counted yet" not in error.stderr:
                raise
            return False
        return True

    wait_until(is_counted, "the waiting Jobs to be counted")
    assert "may have at most 1 waiting Jobs" in alice.refused(job_of("b", queue=queue))
    assert "at most 1h0m0s" in bob.refused(job_of("b", queue=queue, runningEstimate="90m"))
    other = job_of("b", queue=queue)
    other["metadata"]["labels"] = {SERVICE_CLASS: "short"}
    assert 'there is no class of service "short"' in bob.refused(other)
    bob.create(job_of("b", queue=queue))
