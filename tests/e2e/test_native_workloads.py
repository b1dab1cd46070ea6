"""Gangs described by the PodGroups of Kubernetes itself, on a Kubernetes that serves them: no object of ours is made for them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pyroclast.api.keys import SCHEDULER_NAME
from pyroclast.rules.policies.schedulers import scheduler_manifests
from tests.control_plane import build
from tests.control_plane.real import Flavour
from tests.counts import examples
from tests.e2e.cluster import Cluster, KubectlError, running, wait_until

NODES = 4
GROUPS = "podgroups.scheduling.k8s.io"
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
FLAVOUR = Flavour(build.NEXT, serves_workloads=True)
NEEDED = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def own(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of the next version with nodes in two zones, one of them larger; each takes one pod of `cpu`."""
    if control_plane != "real" or build.missing(NEEDED, build.NEXT):
        pytest.skip(f"Kubernetes {build.NEXT} is not asked for, or not built: `make control-plane KUBERNETES={build.NEXT}`")
    folder = tmp_path_factory.mktemp("native")
    with running("real", folder, nodes=NODES, scheduler=SCHEDULER, flavour=FLAVOUR, kube_scheduler=True) as cluster:
        for node, zone in ZONES.items():
            cluster.kubectl("label", "node", node, f"zone={zone}")
        yield cluster


@pytest.fixture
def namespace(own: Cluster) -> Iterator[str]:
    name = f"native-{next(NUMBERS)}"
    own.kubectl("create", "namespace", name)
    yield name
    own.kubectl("delete", "namespace", name, "--wait=false")
    wait_until(lambda: not own.get("pods", "-n", name)["items"], "all pods to go")


@pytest.fixture(scope="module")
def cpu(own: Cluster) -> str:
    """All that a node has."""
    return str(own.get("node", "node-0")["status"]["allocatable"]["cpu"])


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
    own.kubectl("create", "-n", namespace, "-f", "-", stdin=yaml.safe_dump_all(bodies))


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


def gang(minimum: int, **more: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}, **more}


def group(name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name, **meta}, "spec": spec}


def member(name: str, group: str, cpu: str, **more: Any) -> dict[str, Any]:
    spec = pod_spec(cpu, schedulingGroup={"podGroupName": group}, **more)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def nodes(own: Cluster, namespace: str) -> list[str]:
    """Where the pods are that have a node."""
    pods = own.get("pods", "-n", namespace)["items"]
    return sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))


def conditions(own: Cluster, namespace: str, name: str = "") -> dict[str, tuple[str, str, str]]:
    """Those of a group, or of the only one; nothing before it is there."""
    items = own.get(GROUPS, "-n", namespace)["items"]
    found = next((each for each in items if name in {"", each["metadata"]["name"]}), {})
    listed = (found.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


def scheduled(own: Cluster, namespace: str, name: str = "") -> bool:
    return conditions(own, namespace, name).get("PodGroupInitiallyScheduled", ("",))[0] == "True"


def test_a_job_of_kubernetes_is_a_gang_in_one_zone(own: Cluster, namespace: str, cpu: str) -> None:
    scheduling = gang(3, schedulingConstraints={"topology": [{"key": "zone"}]}, disruptionMode={"all": {}})
    make(own, namespace, job("gang", cpu, 3, scheduling))
    wait_until(lambda: scheduled(own, namespace), "the gang to start")
    assert nodes(own, namespace) == ["node-0", "node-1", "node-2"]
    text = own.kubectl("get", GROUPS, "-n", namespace)
    assert "Gang" in text
    assert "Scheduled" in text
    assert own.get(OURS, "-n", namespace)["items"] == []
    pods = own.get("pods", "-n", namespace)["items"]
    assert not any("scheduling.k8s.io/group-name" in pod["metadata"]["annotations"] for pod in pods)


def test_a_gang_that_does_not_fit_says_why_and_writes_little(own: Cluster, namespace: str, cpu: str) -> None:
    own.kubectl("cordon", "node-2", "node-3")
    try:
        make(own, namespace, job("gang", cpu, 3, gang(3)))
        wait_until(lambda: conditions(own, namespace), "the condition")
        time.sleep(10)
        assert nodes(own, namespace) == []
        status, reason, message = conditions(own, namespace)["PodGroupInitiallyScheduled"]
        assert (status, reason) == ("False", "Unschedulable")
        assert "its gang needs 3 pods" in message
        name = own.get(GROUPS, "-n", namespace)["items"][0]["metadata"]["name"]
        assert len(_patches(own, f"/namespaces/{namespace}/podgroups/{name}/status")) <= 2
        assert len(_patches(own, f"/namespaces/{namespace}/pods/")) <= 3
    finally:
        own.kubectl("uncordon", "node-2", "node-3")
    began = time.monotonic()
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start", seconds=5)
    assert time.monotonic() - began < 4


def _patches(own: Cluster, part: str) -> list[str]:
    """URIs of patches of our scheduler, by the audit log."""
    return [uri for user, uri in _writes(own, part) if user.startswith("system:serviceaccount:") and "scheduler" in user]


def test_pods_may_come_before_their_group(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, *(member(f"p{i}", "g", cpu) for i in range(2)))
    time.sleep(2)
    assert nodes(own, namespace) == []
    make(own, namespace, group("g", gang(3)))
    wait_until(lambda: conditions(own, namespace), "the condition")
    assert conditions(own, namespace)["PodGroupInitiallyScheduled"] == ("False", "Unschedulable", "2 of 3 pods present")
    assert conditions(own, namespace)["pyroclast.dev/Queued"] == ("True", "PodsMissing", "2 of 3 pods present")
    make(own, namespace, member("p2", "g", cpu))
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")


def test_the_minimum_is_followed(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, group("g", gang(5)), *(member(f"p{i}", "g", cpu) for i in range(3)))
    wait_until(lambda: conditions(own, namespace), "the condition")
    own.kubectl("patch", GROUPS, "g", "-n", namespace, "--type=merge", "-p", json.dumps({"spec": gang(3)}))
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")


def test_without_scheduling_pods_start_each_by_itself(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("many", cpu, 6))
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "all nodes to be taken")
    wait_until(lambda: scheduled(own, namespace), "the group to say so")


def test_two_gangs_on_too_few_nodes(own: Cluster, namespace: str, cpu: str) -> None:
    for _ in range(5):
        make(own, namespace, job("one", cpu, 3, gang(3)), job("two", cpu, 3, gang(3)))
        wait_until(lambda: len(nodes(own, namespace)) == 3, "one of them to start")
        time.sleep(1)
        assert len(nodes(own, namespace)) == 3
        own.kubectl("delete", "job", "--all", "-n", namespace)
        wait_until(lambda: not own.get("pods", "-n", namespace)["items"], "their pods to go")


@pytest.mark.parametrize("where", ["pod", "job", "namespace"])
def test_the_queue_is_named_by_template_job_or_namespace(own: Cluster, namespace: str, cpu: str, where: str) -> None:
    queue = f"q-{namespace}"
    queues = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
    make(own, namespace, {**queues, "spec": {"capability": {"cpu": str(2 * int(cpu))}}})
    if where == "namespace":
        own.kubectl("annotate", "namespace", namespace, f"{QUEUE}={queue}")
    labels = {"labels": {QUEUE: queue}} if where == "pod" else {"job_labels": {QUEUE: queue}} if where == "job" else {}
    make(own, namespace, job("small", cpu, 2, gang(2), **labels))
    wait_until(lambda: len(nodes(own, namespace)) == 2, "the gang to start")

    def is_counted() -> bool:
        status = own.get("queue", queue).get("status") or {}
        return str((status.get("allocated") or {}).get("cpu")) == str(2 * int(cpu))

    wait_until(is_counted, "the queue to count it")
    make(own, namespace, job("big", cpu, 2, gang(2), **labels))
    big = _group_of(own, namespace, "big")
    wait_until(lambda: conditions(own, namespace, big), "the condition")
    assert f"queue {queue}" in conditions(own, namespace, big)["PodGroupInitiallyScheduled"][2]


def _group_of(own: Cluster, namespace: str, job: str) -> str:
    def found() -> list[str]:
        items = own.get(GROUPS, "-n", namespace)["items"]
        return [each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith(f"{job}-")]

    wait_until(found, f"the group of {job}")
    return found()[0]


@pytest.mark.parametrize("mode", ["single", "all"])
def test_a_gang_of_higher_priority_takes_what_it_needs_or_whole_gangs(own: Cluster, namespace: str, cpu: str, mode: str) -> None:
    high = f"high-{namespace}"
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": high}, "value": 100}
    make(own, namespace, priority)
    make(own, namespace, job("low", cpu, 4, gang(4, disruptionMode={mode: {}})))
    wait_until(lambda: len(nodes(own, namespace)) == 4, "the gang to start")
    low = _group_of(own, namespace, "low")
    before = {pod["metadata"]["uid"] for pod in own.get("pods", "-n", namespace)["items"]}
    make(own, namespace, job("high", cpu, 1, gang(1), pod={"priorityClassName": high}))
    top = _group_of(own, namespace, "high")
    wait_until(lambda: scheduled(own, namespace, top), "the gang of higher priority to start")
    time.sleep(2)
    left = before & {pod["metadata"]["uid"] for pod in own.get("pods", "-n", namespace)["items"]}
    assert len(left) == (3 if mode == "single" else 0)
    if mode == "all":
        wait_until(lambda: "DisruptionTarget" in conditions(own, namespace, low), "the group to say so")


def test_pods_of_two_priorities_are_refused_in_the_words_of_kube_scheduler(own: Cluster, namespace: str, cpu: str) -> None:
    high = f"high-{namespace}"
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": high}, "value": 5}
    make(own, namespace, priority, group("g", gang(2)), member("a", "g", cpu), member("b", "g", cpu, priorityClassName=high))
    wait_until(lambda: conditions(own, namespace), "the condition")
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"
    assert conditions(own, namespace)["PodGroupInitiallyScheduled"] == ("False", "SchedulerError", text)
    assert nodes(own, namespace) == []


def test_a_group_that_is_deleted_and_made_again(own: Cluster, namespace: str, cpu: str) -> None:
    own.kubectl("cordon", "node-2", "node-3")
    try:
        make(own, namespace, group("g", gang(3)), *(member(f"p{i}", "g", cpu) for i in range(3)))
        wait_until(lambda: conditions(own, namespace), "the condition")
        own.kubectl("delete", GROUPS, "g", "-n", namespace, "--wait=false")
        own.kubectl("delete", "pod", "p0", "p1", "p2", "-n", namespace)
        wait_until(lambda: not own.get(GROUPS, "-n", namespace)["items"], "the group to go")
        make(own, namespace, *(member(f"p{i}", "g", cpu) for i in range(3)))
        time.sleep(2)
        assert nodes(own, namespace) == []
        make(own, namespace, group("g", gang(3)))
    finally:
        own.kubectl("uncordon", "node-2", "node-3")
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")


def test_a_cron_job_is_a_gang_of_ours(own: Cluster, namespace: str, cpu: str) -> None:
    template = {"spec": job("x", cpu, 3, gang(3))["spec"]}
    spec = {"schedule": "* * * * *", "jobTemplate": template, "suspend": True}
    make(own, namespace, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec})
    cron = own.get("cronjob", "c", "-n", namespace)["metadata"]
    once = job("once", cpu, 3, gang(3))
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": cron["uid"], "controller": True}
    once["metadata"]["ownerReferences"] = [owner]
    make(own, namespace, once)
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")
    (ours,) = own.get(OURS, "-n", namespace)["items"]
    assert ours["spec"]["minMember"] == 3
    assert own.get(GROUPS, "-n", namespace)["items"] == []


def test_the_last_replacement_of_a_job_starts(own: Cluster, namespace: str, cpu: str) -> None:
    done = pod_spec(cpu)
    done["containers"][0]["command"] = ["sh", "-c", "exit 0"]
    make(own, namespace, group("g", gang(3)))
    for i in range(2):
        make(own, namespace, {**member(f"p{i}", "g", cpu), "spec": {**done, "schedulingGroup": {"podGroupName": "g"}}})
    make(own, namespace, member("p2", "g", cpu))
    wait_until(lambda: scheduled(own, namespace), "the gang to start")

    def phases() -> list[str]:
        return [pod["status"]["phase"] for pod in own.get("pods", "-n", namespace)["items"]]

    wait_until(lambda: phases().count("Succeeded") == 2, "two of three to succeed")
    own.kubectl("delete", "pod", "p2", "-n", namespace)
    make(own, namespace, member("p3", "g", cpu))
    wait_until(lambda: phases().count("Running") == 1, "the replacement to start")


def test_a_gang_is_whole_although_the_scheduler_is_killed(own: Cluster, namespace: str, cpu: str) -> None:
    for i in range(3):
        make(own, namespace, job(f"gang-{i}", cpu, NODES, gang(NODES)))
        wait_until(lambda: own.get("pods", "-n", namespace)["items"], "the first pod")
        time.sleep(0.1 * i)
        own.kill("scheduler")
        wait_until(lambda: len(nodes(own, namespace)) == NODES, "the whole gang to have its nodes")
        own.kubectl("delete", "job", f"gang-{i}", "-n", namespace)
        wait_until(lambda: not own.get("pods", "-n", namespace)["items"], "its pods to go")


def test_a_job_that_names_no_scheduler_has_that_of_its_namespace(own: Cluster, namespace: str, cpu: str) -> None:
    """Also its queue: only the Namespace says a word of either."""
    queue = f"q-{namespace}"
    make(own, namespace, *scheduler_manifests())
    queues = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
    make(own, namespace, {**queues, "spec": {"capability": {"cpu": str(3 * int(cpu))}}})
    own.kubectl("annotate", "namespace", namespace, f"{QUEUE}={queue}")
    own.kubectl("label", "namespace", namespace, f"{SCHEDULER_NAME}=volcano")
    plain = job("plain", cpu, 3, gang(3))
    del plain["spec"]["template"]["spec"]["schedulerName"]
    asked = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": plain["spec"]["template"]["spec"]}

    def is_active() -> bool:
        text = yaml.safe_dump(asked)
        made = own.kubectl("create", "-n", namespace, "-f", "-", "--dry-run=server", "-o", "json", stdin=text)
        return bool(json.loads(made)["spec"]["schedulerName"] == "volcano")

    wait_until(is_active, "the policy to be in force")
    make(own, namespace, plain)
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")
    assert {pod["spec"]["schedulerName"] for pod in own.get("pods", "-n", namespace)["items"]} == {"volcano"}
    wait_until(lambda: scheduled(own, namespace), "the group to say so")

    def is_counted() -> bool:
        status = own.get("queue", queue).get("status") or {}
        return str((status.get("allocated") or {}).get("cpu")) == str(3 * int(cpu))

    wait_until(is_counted, "the queue to count it")


def test_a_queue_that_does_not_exist_is_named(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("lost", cpu, 2, gang(2), labels={QUEUE: "no-such-queue"}))
    wait_until(lambda: conditions(own, namespace), "the condition")
    said = conditions(own, namespace)["PodGroupInitiallyScheduled"]
    assert said == ("False", "Unschedulable", "queue no-such-queue does not exist")


def test_beside_kube_scheduler_every_gang_starts_whole_and_belongs_to_one(own: Cluster, namespace: str, cpu: str) -> None:
    count = examples(40)
    quick = {"containers": [{**pod_spec(cpu)["containers"][0], "command": ["sleep", "1"]}]}
    for i in range(count):
        for name, scheduler in (("ours", "volcano"), ("theirs", "default-scheduler")):
            size = 1 + i % 3
            body = job(f"{name}-{i}", cpu, size, gang(size), pod={**quick, "schedulerName": scheduler})
            body["spec"]["backoffLimit"] = 0
            make(own, namespace, body)

    def ends() -> list[str]:
        jobs = own.get("jobs", "-n", namespace)["items"]
        found = [each["type"] for job in jobs for each in job["status"].get("conditions") or ()]
        return [each for each in found if each in {"Complete", "Failed"}]

    wait_until(lambda: len(ends()) == 2 * count, "all Jobs to end", seconds=60 + 10 * count)
    assert "Complete" in ends()  # a node refuses a pod where both took the same room at once, which ends that Job
    ours = {name for name in _groups(own, namespace) if name.startswith("ours-")}
    written: dict[str, set[str]] = {"ours": set(), "theirs": set()}
    for user, uri in _writes(own, f"/namespaces/{namespace}/podgroups/"):
        written["theirs" if user == "system:kube-scheduler" else "ours"].add(uri.split("/")[7])
    assert written["ours"] <= ours
    assert not written["theirs"] & ours
    deleted = [uri for user, uri in _writes(own, f"/namespaces/{namespace}/pods/theirs-", verb="delete") if "volcano" in user]
    assert deleted == []


def _groups(own: Cluster, namespace: str) -> list[str]:
    return [each["metadata"]["name"] for each in own.get(GROUPS, "-n", namespace)["items"]]


def _writes(own: Cluster, part: str, *, verb: str = "patch") -> list[tuple[str, str]]:
    """Users and URIs of requests, by the audit log."""
    events = [json.loads(line) for line in own.audit_log.read_text().splitlines() if part in line]
    return [(event["user"]["username"], event["requestURI"]) for event in events if event["verb"] == verb]


def test_the_roles_of_users_are_those_of_kubernetes(own: Cluster, namespace: str) -> None:
    """We add no right to them: who may edit may not write a status."""
    for account, role in (("viewer", "view"), ("editor", "edit")):
        own.kubectl("create", "serviceaccount", account, "-n", namespace)
        subject = f"--serviceaccount={namespace}:{account}"
        own.kubectl("create", "rolebinding", account, f"--clusterrole={role}", subject, "-n", namespace)
    assert _can(own, namespace, "viewer", "get", GROUPS)
    assert not _can(own, namespace, "viewer", "create", GROUPS)
    assert _can(own, namespace, "editor", "create", GROUPS)
    assert not _can(own, namespace, "editor", "patch", f"{GROUPS}/status")


def _can(own: Cluster, namespace: str, account: str, verb: str, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    more = [f"--subresource={subresource}"] if subresource else []
    user = f"--as=system:serviceaccount:{namespace}:{account}"
    try:
        return own.kubectl("auth", "can-i", verb, plural, *more, user, "-n", namespace).strip() == "yes"
    except KubectlError:
        return False
