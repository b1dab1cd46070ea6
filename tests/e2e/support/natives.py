"""Gangs described by the PodGroups of Kubernetes itself, as the end-to-end tests make them and read what became of them."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control_plane import build
from tests.control_plane.real import NATIVE
from tests.e2e.support.cluster import Cluster, running, wait_until

NODES = 4
GROUPS = "podgroups.scheduling.k8s.io"
COMPOSITES = "compositepodgroups.scheduling.k8s.io"
OURS = "podgroups.scheduling.volcano.sh"
QUEUE = "scheduling.volcano.sh/queue-name"
ZONES = {"node-0": "a", "node-1": "a", "node-2": "a", "node-3": "b"}
SCHEDULER = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: pdb
- plugins:
  - name: predicates
  - name: capacity
    enableJobEnqueued: false
  - name: nodeorder
"""
_NUMBERS = itertools.count()
NEEDED = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


@contextlib.contextmanager
def native_cluster(control_plane: str, folder: Path, *, nodes: int = NODES) -> Iterator[Cluster]:
    """A control plane of the next version, with kube-scheduler beside ours; Jobs of ours show their gangs there too."""
    if control_plane != "real" or build.missing(NEEDED, build.NEXT):
        pytest.skip(f"Kubernetes {build.NEXT} is not asked for, or not built: `make control-plane KUBERNETES={build.NEXT}`")
    flags = ("--publish-native-groups",)
    with running("real", folder, nodes=nodes, scheduler=SCHEDULER, flavour=NATIVE, kube_scheduler=True, flags=flags) as cluster:
        yield cluster


@contextlib.contextmanager
def zoned_cluster(control_plane: str, folder: Path) -> Iterator[Cluster]:
    """The same with nodes in two zones, one of them larger; each takes one pod that asks for all of its cpus."""
    with native_cluster(control_plane, folder) as cluster:
        for node, zone in ZONES.items():
            cluster.kubectl("label", "node", node, f"zone={zone}")
        yield cluster


@contextlib.contextmanager
def fresh_namespace(own: Cluster) -> Iterator[str]:
    """A namespace for one test; no pod of it is left afterwards."""
    name = f"native-{next(_NUMBERS)}"
    own.make_namespace(name)
    yield name
    own.kubectl("delete", "namespace", name, "--wait=false")
    wait_until(lambda: not own.get("pods", "-n", name)["items"], "all pods to go")


def pod_spec(cpu: str, **more: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": cpu}}
    container = {"name": "c", "image": "busybox", "command": ["sleep", "600"], "resources": requests}
    return {
        "schedulerName": "volcano",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **more,
    }


def make(own: Cluster, namespace: str, *bodies: dict[str, Any]) -> None:
    own.create(yaml.safe_dump_all(bodies), namespace)


def job(name: str, cpu: str, size: int, scheduling: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    spec = {
        "parallelism": size,
        "completions": size,
        "completionMode": "Indexed",
        "template": {"metadata": {"labels": given.get("labels", {})}, "spec": pod_spec(cpu, **given.get("pod", {}))},
        **({"scheduling": scheduling} if scheduling is not None else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": given.get("job_labels", {})},
        "spec": spec,
    }


def volcano_job(name: str, cpu: str, size: int) -> dict[str, Any]:
    task = {"name": "t", "replicas": size, "template": {"spec": pod_spec(cpu)}}
    spec = {"schedulerName": "volcano", "minAvailable": size, "queue": "default", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def gang(minimum: int, **more: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}, **more}


def group(name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name, **meta}, "spec": spec}


def composite(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    """A group of groups that needs `minimum` of them."""
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}}
    body = {"workloadRef": {"workloadName": "w", "templateName": name}, **policy, **spec}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": name}, "spec": body}


def part(name: str, parent: str, minimum: int, **spec: Any) -> dict[str, Any]:
    """A gang that is a part of the group of groups `parent`."""
    reference = {"workloadRef": {"workloadName": "w", "templateName": name}, "parentCompositePodGroupName": parent}
    return group(name, gang(minimum, **reference, **spec))


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def member(name: str, group: str, cpu: str, **more: Any) -> dict[str, Any]:
    spec = pod_spec(cpu, schedulingGroup={"podGroupName": group}, **more)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def nodes(own: Cluster, namespace: str) -> list[str]:
    """Where the pods are that have a node."""
    pods = own.get("pods", "-n", namespace)["items"]
    return sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))


def conditions(own: Cluster, namespace: str, name: str = "", kind: str = GROUPS) -> dict[str, tuple[str, str, str]]:
    """Those of a group, or of the only one; nothing before it is there."""
    items = own.get(kind, "-n", namespace)["items"]
    found = next((each for each in items if name in {"", each["metadata"]["name"]}), {})
    listed = (found.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


def is_scheduled(own: Cluster, namespace: str, name: str = "") -> bool:
    return conditions(own, namespace, name).get("PodGroupInitiallyScheduled", ("",))[0] == "True"


def group_of(own: Cluster, namespace: str, job: str) -> str:
    def found() -> list[str]:
        items = own.get(GROUPS, "-n", namespace)["items"]
        return [each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith(f"{job}-")]

    wait_until(found, f"the group of {job}")
    return found()[0]


def writes(own: Cluster, part: str, *, verb: str = "patch") -> list[tuple[str, str]]:
    """Users and URIs of requests, by the audit log."""
    events = [json.loads(line) for line in own.audit_log.read_text().splitlines() if part in line]
    return [(event["user"]["username"], event["requestURI"]) for event in events if event["verb"] == verb]


def patches(own: Cluster, part: str) -> list[str]:
    """URIs of patches of our scheduler with `part` in them, by the audit log."""
    return [uri for user, uri in writes(own, part) if user.startswith("system:serviceaccount:") and "scheduler" in user]
