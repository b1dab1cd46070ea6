"""A control plane that checks the access to queues, and two users with the role of the chart in namespaces of their own."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.conftest import NODES
from tests.e2e.support.cluster import Cluster, running
from tests.e2e.support.tenants import User, user_of, with_role

PREEMPTING = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


class Tenants(NamedTuple):
    """Two users who have nothing in common but the cluster."""

    alice: User
    bob: User


def job_of(name: str, *, cpu: str = "1", pods: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job of one task, all of whose pods start together and run until they are deleted."""
    container = {"name": "main", "image": "any", "command": ["sleep", "600"], "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"minAvailable": pods, "tasks": [{"name": "main", "replicas": pods, "template": template}], **spec},
    }


def let_use(cluster: Cluster, queue: str, *subjects: str) -> None:
    """Bind a ClusterRole that allows the use of the queue, as `kubectl create clusterrolebinding` takes its subjects."""
    name = f"use-queue-{queue}"
    rule = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "resourceNames": [queue], "verbs": ["use"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(role))
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", *subjects)


@pytest.fixture(scope="package")
def cluster(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control plane for all tests of this folder, where everyone may use the queue `default`."""
    folder = tmp_path_factory.mktemp(f"tenants-{control_plane}")
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as environment:  # the control planes that others start beside it do not inherit them
            environment.setenv("PYROCLAST_QUEUE_ACCESS", "checked")
            environment.setenv("PYROCLAST_ALLOW_JOB_PLACEMENT", "false")
            cluster = stack.enter_context(running(control_plane, folder, nodes=NODES, scheduler=PREEMPTING))
        let_use(cluster, "default", "--group=system:authenticated")
        yield cluster


@pytest.fixture
def tenants(cluster: Cluster, tmp_path: Path) -> Iterator[Tenants]:
    """Alice and Bob, each with the role `pyroclast-user` in one namespace."""
    cluster.wait_for_services()
    names = [f"{name}-{secrets.token_hex(3)}" for name in ("alice", "bob")]
    for name in names:
        cluster.make_namespace(name)
    yield Tenants(*(with_role(user_of(cluster, name, tmp_path, name.partition("-")[0])) for name in names))
    for name in names:
        cluster.delete_namespace(name)
