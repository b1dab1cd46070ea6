"""The priority that the API server gave to pods decides who evicts whom, and quotas decide which classes there are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.tenants import User
from tests.e2e.tenants.conftest import Tenants, job_of


class Classes(NamedTuple):
    """The names of two PriorityClasses."""

    high: str
    low: str


@pytest.fixture
def classes(cluster: Cluster) -> Iterator[Classes]:
    word = secrets.token_hex(3)
    for name, value in (("high", 1_000_000), ("low", 1)):
        meta = {"name": f"{name}-{word}"}
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        cluster.create(json.dumps(body))
    yield Classes(f"high-{word}", f"low-{word}")
    cluster.kubectl("delete", "priorityclass", f"high-{word}", f"low-{word}")


def on_node(name: str, own: str, template: str = "") -> dict[str, Any]:
    """A Job with a class that takes the whole node `node-0`; its template may name another class."""
    job = job_of(name, cpu="6", priorityClassName=own)
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec |= {"nodeSelector": {"kubernetes.io/hostname": "node-0"}, **({"priorityClassName": template} if template else {})}
    return job


def waits(cluster: Cluster, user: User, name: str) -> bool:
    status = cluster.get("vcjob", name, "-n", user.namespace).get("status") or {}
    return "NodesFull" in json.dumps(status)


def test_a_job_class_that_its_pods_do_not_have_evicts_nobody(cluster: Cluster, tenants: Tenants, classes: Classes) -> None:
    tenants.bob.create(on_node("filler", classes.low))
    wait_until(lambda: tenants.bob.phase("filler") == "Running", "the Job of bob to run")
    pods = {each["metadata"]["uid"] for each in cluster.get("pods", "-n", tenants.bob.namespace)["items"]}
    tenants.alice.create(on_node("sly", classes.high, classes.low))
    wait_until(lambda: waits(cluster, tenants.alice, "sly"), "the scheduler to examine the Job of alice")
    assert {each["metadata"]["uid"] for each in cluster.get("pods", "-n", tenants.bob.namespace)["items"]} == pods
    tenants.alice.create(on_node("honest", classes.high))
    wait_until(lambda: tenants.alice.phase("honest") == "Running", "the pod of the high class to evict")


@pytest.mark.parametrize("kind", ["Job", "JobTemplate"])
def test_a_class_that_the_quotas_forbid_is_refused(cluster: Cluster, tenants: Tenants, classes: Classes, kind: str) -> None:
    if cluster.control_plane != "real":
        pytest.skip("the embedded API server has no quotas with scopes")
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [classes.high]}]}
    spec = {"hard": {"pods": "0"}, "scopeSelector": selector}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-high"}, "spec": spec}
    cluster.create(json.dumps(quota), tenants.alice.namespace)
    group = {"Job": "batch.volcano.sh/v1alpha1", "JobTemplate": "flow.volcano.sh/v1alpha1"}[kind]
    sly = {**on_node("sly", classes.high, classes.low), "apiVersion": group, "kind": kind}

    def is_refused() -> bool:  # admission hears of the quota a moment later
        told = tenants.alice.refused({**sly, "metadata": {"generateName": "sly-"}, "spec": {**sly["spec"], "minAvailable": 1}})
        return "no-high" in told

    wait_until(is_refused, "the class to be refused")
    tenants.bob.create(sly)
