"""Writes the objects of `objects.yaml` to an API server, status and all, in the form in which Volcano's programs leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.types import (
    COMMANDS,
    CONFIG_MAPS,
    CRON_JOBS,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    NETWORK_POLICIES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SECRETS,
    SERVICES,
    Key,
    ResourceType,
)
from pyroclast.kube.http.client import Client, PatchKind

Json = dict[str, Any]
_HISTORY: Final = {
    "Restarting": ("Pending", "Running"),
    "Aborting": ("Pending", "Running"),
    "Aborted": ("Pending", "Running", "Aborting"),
    "Completing": ("Pending", "Running"),
    "Completed": ("Pending", "Running"),
    "Terminating": ("Pending", "Running"),
    "Terminated": ("Pending", "Running", "Terminating"),
    "Failed": ("Pending", "Running"),
    "Running": ("Pending",),
}
"""The phases before a phase."""
_COUNTED: Final = {"Waiting": "Pending", "Bound": "Pending", "Terminating": ""}


@cache
def cases() -> Mapping[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("objects.yaml").read_text())
    return found


@dataclass(slots=True)
class Written:
    """Writes into `namespace`; `pods` are the uids of those that were written, `groups` the PodGroups of Jobs."""

    client: Client
    namespace: str
    pods: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    _owners: dict[str, Json] = field(default_factory=dict)
    _nodes: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    async def put(self, kind: ResourceType, body: Json) -> Json:
        """Create an object, and its status where the kind has one of its own."""
        status = body.pop("status", None) if kind not in (POD_GROUPS, NUMATOPOLOGIES) else None
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        made = await self.client.create(kind, body, namespace=body["metadata"].get("namespace") or self._namespace(kind))
        key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
        if status:
            await self.client.patch(kind, key, {"status": status}, PatchKind.MERGE, subresource="status")
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        self._owners[f"{kind.kind}/{name}"] = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return made

    def owned(self, owner: str, name: str, **metadata: Any) -> Json:
        return {"name": name, "ownerReferences": [self._owners[owner]], **metadata}

    async def command(self, owner: str, action: str, namespace: str) -> None:
        """An order as the command line writes it."""
        name = f"{owner.partition('/')[2]}-{action.lower()}-x7k2p"
        metadata = self.owned(owner, name, namespace=namespace) if namespace == self.namespace else {"name": name}
        body = {"metadata": {**metadata, "namespace": namespace}, "action": action, "target": self._owners[owner]}
        await self.put(COMMANDS, body)

    async def pod(self, name: str, state: str, metadata: Json, spec: Json) -> Json:
        """A pod in one of the states of `objects.yaml`."""
        is_bound = state != "Waiting"
        node = {"nodeName": f"node-{next(self._nodes) % 4}"} if is_bound else {}
        scheduled = {"type": "PodScheduled", "status": "True" if is_bound else "False", "lastTransitionTime": now()}
        if not is_bound:
            scheduled |= {"reason": "Unschedulable", "message": "pod group is not ready, 1 Pending, 1 minAvailable"}
        status: Json = {"phase": "Pending", "conditions": [scheduled]}
        if state in ("Running", "Terminating", "Succeeded", "Failed"):
            status |= _status(spec, "Running" if state == "Terminating" else state)
        made = await self.put(PODS, {"metadata": {"name": name, **metadata}, "spec": {**spec, **node}, "status": status})
        if state == "Terminating":
            await self.client.delete(PODS, Key(self.namespace, name))
        else:
            self.pods[name] = made["metadata"]["uid"]
        return made

    def _namespace(self, kind: ResourceType) -> str:
        return self.namespace if kind.namespaced else ""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def write(client: Client, namespace: str) -> Written:
    """Write all cases."""
    to = Written(client, namespace)
    for queue in cases()["queues"]:
        await _queue(to, queue)
    for node in cases()["hypernodes"]:
        await _hyper_node(to, node)
    for each in cases()["numatopologies"]:
        await to.put(NUMATOPOLOGIES, {"metadata": {"name": each["name"]}, "spec": each["spec"]})
    await _templates_and_flows(to)
    for each in cases()["cronjobs"]:
        spec = {"schedule": each["schedule"], "concurrencyPolicy": each["concurrencyPolicy"], "suspend": False}
        spec |= {"jobTemplate": {"spec": _job_spec({"tasks": {"a": {"replicas": 1}}})}}
        await to.put(CRON_JOBS, {"metadata": {"name": each["name"]}, "spec": spec})
    for case in cases()["jobs"]:
        await _job(to, case)
    for each in cases()["cronjobs"]:
        job = to._owners[f"Job/{each['active']}"]
        active = {name: job[name] for name in ("apiVersion", "kind", "name", "uid")} | {"namespace": namespace}
        status = {"active": [active], "lastScheduleTime": now()}
        await client.patch(CRON_JOBS, Key(namespace, each["name"]), {"status": status}, PatchKind.MERGE, subresource="status")
    for case in cases()["plain_pods"]:
        await _plain_pod(to, case)
    return to


async def _queue(to: Written, case: Json) -> None:
    metadata = {"name": case["name"], "annotations": case.get("annotations", {})}
    parent = case.get("parent", "root")
    spec = {"weight": 1, "reclaimable": case.get("reclaimable", True), **({"parent": parent} if parent else {})}
    status = {"state": case["state"], "allocated": case.get("allocated", {"cpu": "0", "memory": "0"})}
    await to.put(QUEUES, {"metadata": metadata, "spec": spec, "status": status})
    if "command" in case:
        await to.command(f"Queue/{case['name']}", case["command"], "default")


async def _hyper_node(to: Written, case: Json) -> None:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in case["members"]]
    body = {"metadata": {"name": case["name"]}, "spec": {"tier": case["tier"], "members": members}}
    await to.put(HYPER_NODES, {**body, "status": {"nodeCount": len(members)}})


async def _templates_and_flows(to: Written) -> None:
    for each in cases()["jobtemplates"]:
        body = {"metadata": {"name": each["name"]}, "spec": _job_spec({"tasks": {"a": {"replicas": 1}}})}
        await to.put(JOB_TEMPLATES, {**body, "status": {"jobDependsOnList": each["made"]} if each["made"] else {}})
    for each in cases()["jobflows"]:
        body = {"metadata": {"name": each["name"]}, "spec": {"flows": each["flows"], "jobRetainPolicy": "retain"}}
        await to.put(JOB_FLOWS, {**body, "status": each["status"]})


async def _job(to: Written, case: Json) -> None:
    name, spec = case["name"], _job_spec(case)
    extra: Json = {key: _in(to.namespace, case[key]) for key in ("labels", "annotations") if key in case}
    metadata = to.owned(case["owner"], name, **extra) if "owner" in case else {"name": name, **extra}
    body: Json = {"metadata": metadata, "spec": spec}
    if "phase" in case:
        body["status"] = _job_status(case, spec)
    made = await to.put(JOBS, body)
    uid, owner = made["metadata"]["uid"], f"Job/{name}"
    if "group" in case:
        to.groups[name] = f"{name}-{uid}"
        group = to.owned(owner, to.groups[name], **extra | {"annotations": case.get("group_annotations", {})})
        await to.put(POD_GROUPS, {"metadata": group, **_group(case, spec)})
    if case.get("plugin_objects"):
        for kind, body in _plugin_objects(to, case):
            await to.put(kind, body)
    for pod, state in case.get("pods", {}).items():
        task, _, index = pod.rpartition("-")
        template = next(each for each in spec["tasks"] if each["name"] == task)["template"]["spec"]
        metadata = _pod_metadata(to, case, task, int(index), f"{name}-{uid}")
        await to.pod(f"{name}-{pod}", state, metadata, {**template, "schedulerName": "volcano"})
    if "command" in case:
        await to.command(owner, case["command"], to.namespace)


def _job_spec(case: Json) -> Json:
    tasks = []
    for name, task in case["tasks"].items():
        run, grace, cpu = (task.get(key, default) for key, default in (("run", "sleep 1"), ("grace", 0), ("cpu", "100m")))
        container = {"name": "c", "image": "busybox", "command": ["sh", "-c", run], "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": grace}}
        rest = {key: value for key, value in task.items() if key not in ("run", "grace", "cpu")}
        tasks.append({"name": name, "maxRetry": 3, "minAvailable": task["replicas"], "template": template, **rest})
    least = sum(task["minAvailable"] for task in tasks)
    queue = case.get("queue", "default")
    return {
        "schedulerName": "volcano",
        "queue": queue,
        "maxRetry": 3,
        "minAvailable": least,
        "tasks": tasks,
        **case.get("spec", {}),
    }


def _job_status(case: Json, spec: Json) -> Json:
    counts: Json = {}
    tasks: Json = {}
    for pod, state in case.get("pods", {}).items():
        phase = _COUNTED.get(state, state)
        counted = phase.lower() or "terminating"
        counts[counted] = counts.get(counted, 0) + 1
        if phase:
            of_task = tasks.setdefault(pod.rpartition("-")[0], {"phase": {}})["phase"]
            of_task[phase] = of_task.get(phase, 0) + 1
    phases = (*_HISTORY.get(case["phase"], ()), case["phase"])
    return {
        "state": {"phase": case["phase"], "lastTransitionTime": now()},
        "minAvailable": spec["minAvailable"],
        "conditions": [{"status": phase, "lastTransitionTime": now()} for phase in phases],
        **counts,
        **({"taskStatusCount": tasks} if tasks else {}),
        **case.get("status", {}),
    }


def _group(case: Json, spec: Json) -> Json:
    least = spec["minAvailable"]
    resources = {"count/pods": str(least), "pods": str(least), "cpu": f"{least}00m", "requests.cpu": f"{least}00m"}
    subgroups = [
        {
            "name": task["name"],
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": task["name"]}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": task["partitionPolicy"]["partitionSize"],
            "minSubGroups": task["partitionPolicy"]["minPartitions"],
        }
        for task in spec["tasks"]
        if "partitionPolicy" in task
    ]
    told = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled", "transitionID": "s-1"}
    if case["group"] != "Running":
        told |= {"type": "Unschedulable", "reason": "NotEnoughResources", "message": "1/1 tasks in gang unschedulable"}
    return {
        "spec": {
            "minMember": least,
            "minTaskMember": {task["name"]: task["minAvailable"] for task in spec["tasks"]},
            "minResources": resources,
            "queue": spec["queue"],
            **({"subGroupPolicy": subgroups} if subgroups else {}),
        },
        "status": {
            "phase": case["group"],
            "running": sum(state == "Running" for state in case.get("pods", {}).values()),
            "conditions": [{**told, "lastTransitionTime": now()}],
        },
    }


def _pod_metadata(to: Written, case: Json, task: str, index: int, group: str) -> Json:
    status, name = case.get("status", {}), case["name"]
    shared = {
        "volcano.sh/job-name": name,
        "volcano.sh/queue-name": case.get("queue", "default"),
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task,
    }
    version = status.get("version", 0)
    if case.get("phase") not in ("Running", "Pending"):  # counted up when the pods were taken away
        version -= 1
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/job-retry-count": str(status.get("retryCount", 0)),
        "volcano.sh/job-version": str(max(version, 0)),
        "volcano.sh/template-uid": f"{name}-{task}",
        **case.get("pod_annotations", {}),
    }
    labels = {**shared, "volcano.sh/job-namespace": to.namespace}
    if "partitionPolicy" in case["tasks"][task]:
        labels["volcano.sh/partition-id"] = str(index // case["tasks"][task]["partitionPolicy"]["partitionSize"])
    owners = to.owned(f"Job/{name}", name)["ownerReferences"]
    return {"annotations": {**shared, **annotations}, "labels": labels, "ownerReferences": owners}


def _plugin_objects(to: Written, case: Json) -> Iterator[tuple[ResourceType, Json]]:
    """What the plugins svc and ssh make for a Job with one task `a` of two replicas."""
    name, owner = case["name"], f"Job/{case['name']}"
    selector = {"volcano.sh/job-name": name, "volcano.sh/job-namespace": to.namespace}
    hosts = [f"{name}-a-{index}.{name}" for index in range(2)]
    ports = [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}]
    yield SERVICES, {"metadata": to.owned(owner, name), "spec": {"clusterIP": "None", "selector": selector, "ports": ports}}
    data = {"VC_A_HOSTS": ",".join(hosts), "VC_A_NUM": "2", "a.host": "\n".join(hosts)}
    yield CONFIG_MAPS, {"metadata": to.owned(owner, f"{name}-svc"), "data": data}
    pods = {"matchLabels": selector}
    policy = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]}
    yield NETWORK_POLICIES, {"metadata": to.owned(owner, name), "spec": policy}
    secret = {"authorized_keys": "ssh-rsa AAAA", "id_rsa": "-----BEGIN RSA PRIVATE KEY-----", "id_rsa.pub": "ssh-rsa AAAA"}
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    config += "".join(f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port 22\n" for host in hosts)
    yield SECRETS, {"metadata": to.owned(owner, f"{name}-ssh"), "stringData": {**secret, "config": config}, "type": "Opaque"}


async def _plain_pod(to: Written, case: Json) -> None:
    """A pod without a Job: Volcano makes a PodGroup for it and names it in an annotation."""
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "sleep 600"]}
    spec = {"containers": [container], "restartPolicy": "Never", "schedulerName": "volcano", "terminationGracePeriodSeconds": 0}
    made = await to.pod(case["name"], case["phase"], {}, spec)
    group = f"podgroup-{made['metadata']['uid']}"
    phase = "Running" if case["phase"] == "Running" else "Inqueue"
    body = {"spec": {"minMember": 1, "queue": "default", "minResources": {"count/pods": "1", "pods": "1"}}}
    metadata = to.owned(f"Pod/{case['name']}", group)
    await to.put(POD_GROUPS, {"metadata": metadata, **body, "status": {"phase": phase}})
    annotated = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": group}}}
    await to.client.patch(PODS, Key(to.namespace, case["name"]), annotated, PatchKind.MERGE)


def _status(spec: Json, phase: str) -> Json:
    if phase == "Running":
        state: Json = {"running": {"startedAt": now()}}
    else:
        reason = "Completed" if phase == "Succeeded" else "Error"
        ended = {"startedAt": now(), "finishedAt": now(), "exitCode": int(phase == "Failed"), "reason": reason}
        state = {"terminated": ended}
    names = [container["name"] for container in spec["containers"]]
    is_ready = phase == "Running"
    ready = {"ready": is_ready, "restartCount": 0, "image": "busybox", "imageID": ""}
    conditions = [
        {"type": kind, "status": "True" if is_ready or kind == "PodScheduled" else "False", "lastTransitionTime": now()}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "phase": phase,
        "startTime": now(),
        "conditions": conditions,
        "containerStatuses": [{"name": name, "state": state, **ready} for name in names],
    }


def _in(namespace: str, values: Mapping[str, str]) -> dict[str, str]:
    return {key: value.replace("<namespace>", namespace) for key, value in values.items()}
