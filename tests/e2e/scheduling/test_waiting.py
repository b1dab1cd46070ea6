"""Why a Job does not start: each reason there is, in the same words wherever one asks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_PERSON_LIMITS
from pyroclast.api.types import (
    COMMANDS,
    HYPER_NODES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    QUEUES,
    RESOURCE_QUOTAS,
    VALIDATING_WEBHOOKS,
    Key,
    ResourceType,
)
from pyroclast.api.waiting_codes import TOLD_BY_SCHEDULER
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.kube.http.client import Client
from tests.e2e.support.cluster import Cluster, places_before_pods, running
from tests.e2e.support.waiting import JOB, STUCK, Asked, Case, ask_everywhere

pytestmark = pytest.mark.timeout(600)  # the first test waits for all of them
NOT_IN = "it has no pods before it is let in"
HOST = "kubernetes.io/hostname"


def task(cpu: str = "100m", replicas: int = 1, *, name: str = "a", resources: dict[str, str] | None = None, **pod: Any) -> Any:
    """A task of pods that run until they are deleted; `pod`: more of their spec."""
    asks = {"cpu": cpu} if resources is None else resources
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "3600"]}
    container["resources"] = {"requests": asks, "limits": asks}  # type: ignore[assignment]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **pod}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def job(*tasks: Any, name: str = JOB, **spec: Any) -> dict[str, Any]:
    body = {"tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def queue(name: str = "{name}", **spec: Any) -> tuple[ResourceType, dict[str, Any]]:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return QUEUES, {**kind, "metadata": {"name": name}, "spec": spec}


def annotated(key: str, text: str) -> tuple[ResourceType, dict[str, Any]]:
    """A queue with an annotation, such as a budget."""
    kind, body = queue()
    body["metadata"]["annotations"] = {key: text}
    return kind, body


def filler(*tasks: Any, **spec: Any) -> tuple[ResourceType, dict[str, Any]]:
    return JOBS, job(*tasks, name="filler", **spec)


async def close_queue(client: Client, name: str) -> None:
    queue = await client.get(QUEUES, Key("", name))
    target = {"apiVersion": queue["apiVersion"], "kind": "Queue", "name": name, "uid": queue["metadata"]["uid"]}
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "close"}}
    await client.create(COMMANDS, {**command, "action": "CloseQueue", "target": target}, namespace=name)


async def delete_queue(client: Client, name: str) -> None:
    await client.delete(QUEUES, Key("", name))


async def end_holder(client: Client, name: str) -> None:
    await client.delete(PODS, Key(name, "holder-a-0"))


def claim() -> tuple[ResourceType, dict[str, Any]]:
    """A claim that nobody makes a volume for."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": ""}
    return PERSISTENT_VOLUME_CLAIMS, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": spec,
    }


def refused_binds() -> tuple[ResourceType, dict[str, Any]]:
    """A webhook for the binds of the namespace whose condition is an error, for which the API server forbids them."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    hook = {
        "name": "binds.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule],
        "matchConditions": [{"name": "error", "expression": "object.missing == true"}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{name}"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return VALIDATING_WEBHOOKS, {**kind, "metadata": {"name": "{name}"}, "webhooks": [hook]}


def quota(**hard: str) -> tuple[ResourceType, dict[str, Any]]:
    return RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def hyper_node(node: str) -> tuple[ResourceType, dict[str, Any]]:
    member = {"type": "Node", "selector": {"exactMatch": {"name": node}}}
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    return HYPER_NODES, {**kind, "metadata": {"name": f"{{name}}-{node}"}, "spec": {"tier": 1, "members": [member]}}


async def add_child(client: Client, name: str) -> None:
    _, manifest = queue(f"{name}-child", parent=name)
    await client.create(QUEUES, manifest)


def holder() -> tuple[ResourceType, dict[str, Any]]:
    """A Job whose pod stays on its node when it is deleted."""
    stuck = task("2", nodeSelector={HOST: "node-6"}, terminationGracePeriodSeconds=3600)
    stuck["template"]["metadata"] = {"annotations": {STUCK: "true"}}
    return JOBS, job(stuck, name="holder", policies=[{"event": "PodEvicted", "action": "TerminateJob"}])


def occupant(cpu: str, node: str) -> tuple[ResourceType, dict[str, Any]]:
    """A pod of no Job that is on its node from the beginning."""
    spec = {**task(cpu)["template"]["spec"], "nodeName": node}
    return PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "occupant"}, "spec": spec}


REFUSED_BINDS = "binds that are refused"
CASES: dict[str, Case] = {
    "a queue that was closed": Case(
        job(task("2"), queue="{name}"),
        "QueueClosed: queue {name} is Closing, so the job starts when it is opened again",
        before=[queue(capability={"cpu": "1"})],
        afterwards=close_queue,
        without_pods=NOT_IN,
    ),
    "a queue that was closed when its gang was let in already": Case(
        job(task(nodeSelector={"zone": "nowhere"}), queue="{name}"),
        "QueueClosed: queue {name} is Closing, so the job starts when it is opened again",
        before=[queue()],
        afterwards=close_queue,
    ),
    "a queue that may not have so much": Case(
        job(task("2", 2), queue="{name}"),
        "AboveQueueLimit: never: it asks for 4 cpu; queue {name} may have at most 2 cpu (its capability)",
        before=[queue(capability={"cpu": "2"})],
        without_pods=NOT_IN,
    ),
    "a queue that has spent its budget": Case(
        job(task("1"), queue="{name}"),
        "BudgetSpent: not now: *",
        before=[annotated(QUEUE_BUDGET, '{"period":"year","limits":{"cpu":"0h"},"whenUnknown":"hold"}')],
        without_pods=NOT_IN,
    ),
    "a person who may not use so much of a queue": Case(
        job(task("2"), queue="{name}"),
        "PersonLimit: never: it asks for 2 cpu; a person may use at most 1 cpu in queue {name}",
        before=[annotated(QUEUE_PERSON_LIMITS, '{"resources":{"cpu":"1"}}')],
        without_pods=NOT_IN,
    ),
    "a queue that is full": Case(
        job(task("1"), queue="{name}"),
        "QueueFull: not now: it asks for 1 cpu; queue {name} may have at most 1500m cpu, it has 1 and 0 are promised to gangs "
        "let in before",
        before=[queue(capability={"cpu": "1500m"}), filler(task("1", nodeSelector={HOST: "node-4"}), queue="{name}")],
        without_pods=NOT_IN,
    ),
    "a cluster of which another queue is guaranteed most": Case(
        job(task(resources={"memory": "2Gi"}), queue="default"),
        "HeldByGuarantee: not now: it asks for 2Gi memory; of the cluster's 128Gi memory other queues are guaranteed: "
        "{name} 127Gi memory; this leaves queue default 1Gi memory, of which it has 0*",
        before=[queue(guarantee={"resource": {"memory": "127Gi"}}, deserved={"memory": "127Gi"})],
        without_pods=NOT_IN,
    ),
    "more than the cluster has": Case(
        job(task("8", 9)),
        "AboveCluster: never: it asks for 72 cpu in all, and the cluster has 64 cpu",
        without_pods=NOT_IN,
    ),
    "a device that no node has": Case(
        job(task(resources={"example.com/none": "1"}, replicas=5)),
        "AboveCluster: never: it asks for 5 example.com/none in all, and the cluster has no example.com/none",
        without_pods=NOT_IN,
    ),
    "a cluster that is full": Case(
        job(task("8", 7)),
        "ClusterFull: not now: it asks for 56 cpu; of the cluster's 64 cpu * are taken and * promised to gangs let in before*",
        before=[filler(*(task("8", name=f"t{number}", nodeSelector={HOST: f"node-{number}"}) for number in range(3)))],
        without_pods=NOT_IN,
    ),
    "a task that waits for another": Case(
        job(task(), {**task(name="b"), "dependsOn": {"name": ["a"]}}),
        "WaitsForTask: never: task b waits for a, which starts only when 2 pods are there; without dependsOn 1 is made",
    ),
    "a gate": Case(
        job(task(schedulingGates=[{"name": "example.com/gate"}])),
        "Gated: 1 pod waits behind scheduling gate: example.com/gate",
        without_pods="the API server's own condition, SchedulingGated, stays as it is",
    ),
    "a selector that no node meets": Case(
        job(task(nodeSelector={"zone": "nowhere"})),
        "NoNodeAllowed: never: no node takes j-a-0: 8 node(s) didn't match Pod's node affinity/selector",
    ),
    "a selector that no node meets, of pods that ask for nothing": Case(
        job(task(resources={}, nodeSelector={"zone": "nowhere"})),
        "NoNodeAllowed: never: no node takes j-a-0: 8 node(s) didn't match Pod's node affinity/selector",
    ),
    "a pod that is too big for any node": Case(
        job(task("9")),
        "NoNodeBigEnough: never: j-a-0 asks for 9 cpu; the biggest node, node-*, has 8 cpu",
    ),
    "a gang for which there are too few nodes": Case(
        job(task("5", 2, nodeSelector={HOST: "node-7"})),
        "TooFewNodes: never: its gang needs 2 pods of 5 cpu, and 1 node holds 1 of them even when empty",
    ),
    "nodes that are full": Case(
        job(task("4", nodeSelector={HOST: "node-5"})),
        "NodesFull: not now: its gang needs 1 pod of 4 cpu, of which 0 have room: 3 cpu free on 1 node, at most 3 cpu on one "
        "(node-5)*",
        before=[filler(task("5", nodeSelector={HOST: "node-5"}))],
    ),
    "a claim without a volume": Case(
        job(task(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])),
        "NodesRefuse: not now: no node takes j-a-0: *",
        before=[claim()],
    ),
    "pods that are going": Case(
        job(task("7", nodeSelector={HOST: "node-6"})),
        "RoomIsComing: room for 1 pod of it is coming: what runs there is ending",
        before=[holder()],
        afterwards=end_holder,
    ),
    REFUSED_BINDS: Case(
        job(task(nodeSelector={HOST: "node-4"})),
        "BindRefused: the API server refused to bind pods of it a moment ago; it is tried again",
        before=[refused_binds()],
        own=[(VALIDATING_WEBHOOKS, "{name}")],
    ),
    "a queue that was deleted": Case(
        job(task("2"), queue="{name}"),
        "LeftOut: queue {name} does not exist",
        before=[queue(capability={"cpu": "1"})],
        afterwards=delete_queue,
        without_pods=NOT_IN,
    ),
}


SCHEDULER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: resourcequota
  - name: capacity
    enableHierarchy: true
  - name: predicates
  - name: network-topology-aware
configurations:
- name: enqueue
  arguments: {promisePeriods: 100000}
"""
"""For the reasons that others than the default plugins give. Room is kept for a gang for longer than the tests take."""

OTHER_PLUGINS: dict[str, Case] = {
    "a namespace without quota": Case(
        job(task("1", 2)),  # a Job of one pod may have its pod at once, which the quota would refuse
        "NamespaceQuota: not now: a ResourceQuota of namespace {name} has no room for it, requested: requests.cpu=2, "
        "used: requests.cpu=0, limited: requests.cpu=1",
        before=[quota(**{"requests.cpu": "1"})],
        without_pods=NOT_IN,
    ),
    "a queue that is no leaf": Case(
        job(task("2"), queue="{name}"),
        "NotLetIn: queue {name} has children: jobs go into the queues below it",
        before=[queue(capability={"cpu": "1"})],
        afterwards=add_child,
        own=[(QUEUES, "{name}-child"), (QUEUES, "{name}")],
        without_pods=NOT_IN,
    ),
    "a gang before it that was let in and waits for room on its node": Case(
        job(task("2", 2), queue="{name}"),
        "BehindAnother: not now: it asks for 4 cpu and would fit: queue {name} has 0 of 4 cpu; but 4 cpu are promised to gangs "
        "before it in the queue, the first: {name}/filler* (priority 0)",
        before=[
            queue(capability={"cpu": "4"}),
            occupant("7", "node-0"),
            filler(task("2", 2, nodeSelector={HOST: "node-0"}), queue="{name}"),
        ],
        own=[(QUEUES, "{name}")],
        without_pods=NOT_IN,
    ),
    "a network whose parts are too small": Case(
        job(task("5", 2), networkTopology={"mode": "hard", "highestTierAllowed": 1}),
        "TopologyTooNarrow: never: its gang needs 2 pods of 5 cpu, and no hypernode up to tier 1 holds more than 1 of them even "
        "when empty",
        before=[hyper_node("node-0"), hyper_node("node-1")],
        own=[(HYPER_NODES, "{name}-node-0"), (HYPER_NODES, "{name}-node-1")],
    ),
}
WITHOUT_NODES: dict[str, Case] = {
    "nodes of which none is ready": Case(job(task(resources={})), "NoNodeReady: no node is ready"),
}
ALL = {**CASES, **OTHER_PLUGINS, **WITHOUT_NODES}


@pytest.fixture(scope="module")
def by_default(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return asyncio.run(ask_everywhere(cluster, tmp_path_factory.mktemp("waiting"), CASES))


@pytest.fixture(scope="module")
def elsewhere(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """On a cluster of two nodes with other plugins, first while no node is ready."""
    folder = tmp_path_factory.mktemp("waiting-elsewhere")
    with running(control_plane, folder, nodes=2, scheduler=SCHEDULER) as own:
        make_nodes(own, "not-ready", "False")
        found = asyncio.run(ask_everywhere(own, folder, WITHOUT_NODES))
        make_nodes(own, "ready", "True")
        return {**found, **asyncio.run(ask_everywhere(own, folder, OTHER_PLUGINS))}


def make_nodes(cluster: Cluster, state: str, ready: str) -> None:
    cluster.kubectl("annotate", "node", "--all", "--overwrite", f"nodes.pyroclast.dev/state={state}")
    cluster.kubectl("wait", "node", "--all", f"--for=condition=Ready={ready}", "--timeout=60s")


@pytest.mark.parametrize("title", CASES)
def test_waiting_cause_is_the_same_in_every_place_that_reports_it(by_default: Asked, title: str) -> None:
    if places_before_pods() and title == REFUSED_BINDS:
        pytest.skip("without --bind-pods there is no bind to refuse")
    assert by_default[title].differing(CASES[title]) == {}


@pytest.mark.parametrize("title", OTHER_PLUGINS | WITHOUT_NODES)
def test_waiting_cause_is_the_same_everywhere_with_other_plugins_or_no_ready_nodes(elsewhere: Asked, title: str) -> None:
    assert elsewhere[title].differing(ALL[title]) == {}


def test_every_pending_reason_of_the_scheduler_has_a_test_case() -> None:
    elsewhere = {
        PendingReason.KEPT_FOR_ANOTHER,  # tests of reservations make that one
        PendingReason.PODS_MISSING,  # the Job says why its pods are refused
    }
    assert {pending.reason_of(case.want) for case in ALL.values()} == TOLD_BY_SCHEDULER - elsewhere
