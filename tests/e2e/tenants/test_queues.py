"""A queue is used by the right `use`, and only in the namespaces that it names."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from pyroclast.api.keys import QUEUE_NAMESPACES, SCHEDULING_QUEUE_NAME
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.tenants import with_role
from tests.e2e.tenants.conftest import Tenants, job_of, let_use

EDITOR = "vcjob-editor-role"
CONTAINERS = {"containers": [{"name": "main", "image": "any"}]}


def queue_of(cluster: Cluster, **annotations: str) -> str:
    """The name of a new queue."""
    name = f"queue-{secrets.token_hex(3)}"
    meta = {"name": name, "annotations": annotations}
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": {"weight": 1}}
    cluster.create(json.dumps(body))
    return name


def objects_in(queue: str) -> Iterator[dict[str, Any]]:
    """An object of each kind that a user may create, all in the queue."""
    job = job_of("mine", queue=queue)
    yield job
    yield {**job, "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"}
    yield {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "mine"},
        "spec": {"flows": [{"name": "a", "patch": {"spec": {"queue": queue}}}]},
    }
    yield {**job, "kind": "CronJob", "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job["spec"]}}}
    yield {
        "apiVersion": "training.volcano.sh/v1alpha1",
        "kind": "HyperJob",
        "metadata": {"name": "mine"},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 1, "templateSpec": job["spec"]}]},
    }
    meta = {"name": "mine", "annotations": {SCHEDULING_QUEUE_NAME: queue}}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"schedulerName": "volcano", **CONTAINERS}}
    labels = {"matchLabels": {"app": "mine"}}
    template = {"metadata": {"labels": {"app": "mine"}, "annotations": {SCHEDULING_QUEUE_NAME: queue}}, "spec": CONTAINERS}
    spec = {"replicas": 0, "selector": labels, "template": template}
    yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "mine"}, "spec": spec}


def test_a_user_submits_to_no_queue_without_the_right_to_use_it(cluster: Cluster, tenants: Tenants) -> None:
    queue = queue_of(cluster)
    alice, bob = (with_role(with_role(each, "edit"), EDITOR) for each in tenants)
    let_use(cluster, queue, f"--serviceaccount={bob.namespace}:bob")
    for manifest in objects_in(queue):
        told = alice.refused(manifest)
        assert f'user "{alice.user}" may not use queues.scheduling.volcano.sh "{queue}"' in told, manifest["kind"]
        assert f"resourceNames: [{queue}], verbs: [use]" in told
        bob.create(manifest)
    wait_until(lambda: bob.phase("mine") == "Running", "the Job of bob to run")


def test_a_controller_is_not_asked_for_what_its_user_was_asked(cluster: Cluster, tenants: Tenants) -> None:
    queue = queue_of(cluster)
    bob = with_role(with_role(tenants.bob, "edit"), EDITOR)
    let_use(cluster, queue, f"--serviceaccount={bob.namespace}:bob")
    _, template, flow, _, hyper, _, replicas = objects_in(queue)
    flow["spec"] = {"flows": [{"name": "mine"}]}
    replicas["spec"]["replicas"] = 1
    for manifest in (template, flow, hyper, replicas):
        bob.create(manifest)

    def made() -> set[str]:
        jobs = cluster.get("jobs.batch.volcano.sh", "-n", bob.namespace)["items"]
        return {each["metadata"]["name"] for each in jobs if each["spec"]["queue"] == queue}

    wait_until(lambda: made() == {"mine-mine", "mine-a-0"}, "the Jobs of the flow and of the HyperJob")
    if cluster.control_plane == "real":  # the embedded one makes no pods of ReplicaSets
        wait_until(lambda: cluster.get("pods", "-n", bob.namespace, "-l", "app=mine")["items"], "the pod of the ReplicaSet")


def test_another_user_of_the_namespace_runs_nothing_by_editing_a_template(cluster: Cluster, tenants: Tenants) -> None:
    queue = queue_of(cluster)
    alice, bob = tenants
    let_use(cluster, queue, f"--serviceaccount={bob.namespace}:bob")
    account = f"--serviceaccount={alice.namespace}:alice"
    cluster.kubectl("create", "rolebinding", "guest", "-n", bob.namespace, f"--clusterrole={EDITOR}", account)
    bob.create(next(each for each in objects_in(queue) if each["kind"] == "JobTemplate"))
    edit = ("patch", "jobtemplate", "mine", "-n", bob.namespace, "--type=merge", "-p")
    changed = json.dumps({"spec": {"maxRetry": 7}})
    assert "may not use queues" in cluster.refused(f"--as={alice.user}", *edit, changed)
    cluster.kubectl(f"--as={bob.user}", *edit, changed)


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_a_queue_refuses_namespaces_that_it_does_not_name(cluster: Cluster, tenants: Tenants, kind: str) -> None:
    alice, bob = (with_role(each, "edit") for each in tenants)
    queue = queue_of(cluster, **{QUEUE_NAMESPACES: bob.namespace})
    let_use(cluster, queue, "--group=system:authenticated")
    manifest = next(each for each in objects_in(queue) if each["kind"] == kind)
    assert f'queue "{queue}" may not be used in the namespace "{alice.namespace}"' in alice.refused(manifest)
    bob.create(manifest)
    cluster.kubectl("annotate", "queue", queue, "--overwrite", f"{QUEUE_NAMESPACES}={bob.namespace},{alice.namespace}")
    alice.create(manifest)
