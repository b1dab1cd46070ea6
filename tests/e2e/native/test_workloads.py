"""Gangs described by the PodGroups of Kubernetes itself, on a Kubernetes that serves them: no object of ours is made for them."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
import yaml

from pyroclast.api.keys import SCHEDULER_NAME
from pyroclast.rules.policies.switched import scheduler_manifests
from tests.e2e.support.board import shows
from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.e2e.support.natives import (
    COMPOSITES,
    GROUPS,
    NODES,
    OURS,
    QUEUE,
    composite,
    conditions,
    gang,
    group,
    group_of,
    is_scheduled,
    job,
    make,
    member,
    nodes,
    part,
    patches,
    pod_spec,
    priority_class,
    volcano_job,
    writes,
)
from tests.e2e.support.shell import Shell

PODS_OF_A_BIG_GANG = 40
WHOLE = pytest.mark.soak
"""Marks the full counts of a statement, of which every run of the tests shows a part."""


def test_kubernetes_job_starts_as_gang_in_one_zone_without_a_volcano_podgroup(own: Cluster, namespace: str, cpu: str) -> None:
    scheduling = gang(3, schedulingConstraints={"topology": [{"key": "zone"}]}, disruptionMode={"all": {}})
    make(own, namespace, job("gang", cpu, 3, scheduling))
    wait_until(lambda: is_scheduled(own, namespace), "the gang to start")
    assert nodes(own, namespace) == ["node-0", "node-1", "node-2"]
    text = own.kubectl("get", GROUPS, "-n", namespace)
    assert "Gang" in text
    assert "Scheduled" in text
    assert own.get(OURS, "-n", namespace)["items"] == []
    pods = own.get("pods", "-n", namespace)["items"]
    assert not any("scheduling.k8s.io/group-name" in pod["metadata"]["annotations"] for pod in pods)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seconds", "start_seconds"), [(10, 15), pytest.param(60, 2, marks=WHOLE)])
def test_gang_that_does_not_fit_gets_a_condition_with_few_status_writes(
    own: Cluster, namespace: str, cpu: str, seconds: int, start_seconds: int
) -> None:
    own.kubectl("cordon", "node-2", "node-3")
    try:
        make(own, namespace, job("gang", cpu, 3, gang(3)))
        wait_until(lambda: conditions(own, namespace), "the condition")
        time.sleep(seconds)
        assert nodes(own, namespace) == []
        status, reason, message = conditions(own, namespace)["PodGroupInitiallyScheduled"]
        assert (status, reason) == ("False", "Unschedulable")
        assert "its gang needs 3 pods" in message
        name = own.get(GROUPS, "-n", namespace)["items"][0]["metadata"]["name"]
        assert len(patches(own, f"/namespaces/{namespace}/podgroups/{name}/status")) <= 2
        assert max(Counter(patches(own, f"/namespaces/{namespace}/pods/")).values(), default=0) <= 1
    finally:
        own.kubectl("uncordon", "node-2", "node-3")
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start", seconds=start_seconds)


def test_pods_created_before_their_podgroup_wait_until_the_gang_is_complete(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, *(member(f"p{i}", "g", cpu) for i in range(2)))
    time.sleep(2)
    assert nodes(own, namespace) == []
    make(own, namespace, group("g", gang(3)))
    wait_until(lambda: conditions(own, namespace), "the condition")
    assert conditions(own, namespace)["PodGroupInitiallyScheduled"] == ("False", "Unschedulable", "2 of 3 pods present")
    assert conditions(own, namespace)["pyroclast.dev/Queued"] == ("True", "PodsMissing", "2 of 3 pods present")
    shell = Shell(own.kubeconfig, namespace)
    assert "2 of 3 pods present" in shell.run("vcctl", "explain", "podgroup/g", "-n", namespace).stdout
    header, row = shell.run("vcctl", "waiting", "-n", namespace).stdout.splitlines()
    assert "KIND" in header
    assert {"g", "PodsMissing", GROUPS} <= set(row.split())
    uid = own.get(GROUPS, "g", "-n", namespace)["metadata"]["uid"]
    assert f'href="/jobs/{uid}">g</a> (PodGroup of Kubernetes)' in shows(own, f"/jobs?namespace={namespace}", "PodsMissing")
    shows(own, f"/jobs/{uid}", "<b>PodsMissing</b>", "2 of 3 pods present")
    make(own, namespace, member("p2", "g", cpu))
    wait_until(lambda: len(nodes(own, namespace)) == 3, "the gang to start")
    shows(own, f"/jobs/{uid}", "3 of 3 run", "p2")


def limited(queue: str, cpus: int) -> dict[str, object]:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": queue}, "spec": {"capability": {"cpu": str(cpus)}}}


def is_counted(own: Cluster, queue: str, cpus: int) -> bool:
    status = own.get("queue", queue).get("status") or {}
    return str((status.get("allocated") or {}).get("cpu")) == str(cpus)


@pytest.mark.parametrize("where", ["pod", "job", "namespace"])
def test_queue_of_a_kubernetes_job_is_read_from_pod_template_job_or_namespace(
    own: Cluster, namespace: str, cpu: str, where: str
) -> None:
    queue = f"q-{namespace}"
    make(own, namespace, limited(queue, 2 * int(cpu)))
    if where == "namespace":
        own.kubectl("annotate", "namespace", namespace, f"{QUEUE}={queue}")
    labels = {"labels": {QUEUE: queue}} if where == "pod" else {"job_labels": {QUEUE: queue}} if where == "job" else {}
    make(own, namespace, job("small", cpu, 2, gang(2), **labels))
    wait_until(lambda: len(nodes(own, namespace)) == 2, "the gang to start")
    wait_until(lambda: is_counted(own, queue, 2 * int(cpu)), "the queue to count it")
    assert {pod["metadata"]["annotations"][QUEUE] for pod in own.get("pods", "-n", namespace)["items"]} == {queue}
    make(own, namespace, job("big", cpu, 2, gang(2), **labels))
    big = group_of(own, namespace, "big")
    wait_until(lambda: conditions(own, namespace, big), "the condition")
    assert f"queue {queue}" in conditions(own, namespace, big)["PodGroupInitiallyScheduled"][2]
    own.kubectl("delete", "job", "small", "-n", namespace)
    shell = Shell(own.kubeconfig, namespace)
    report = "vcctl", "report", "usage", "--by", "queue", "-n", namespace
    wait_until(lambda: queue in shell.run(*report).stdout, "its usage to be reported")


def test_job_of_a_kubernetes_cron_job_gets_a_volcano_podgroup(own: Cluster, namespace: str, cpu: str) -> None:
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


def test_job_without_scheduler_name_and_queue_gets_those_of_its_namespace(own: Cluster, namespace: str, cpu: str) -> None:
    """Also its queue: only the Namespace says a word of either."""
    queue = f"q-{namespace}"
    make(own, namespace, *scheduler_manifests())
    make(own, namespace, limited(queue, 3 * int(cpu)))
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
    wait_until(lambda: is_scheduled(own, namespace), "the group to say so")
    wait_until(lambda: is_counted(own, queue, 3 * int(cpu)), "the queue to count it")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=WHOLE)])
def test_gang_is_bound_whole_after_the_scheduler_is_killed_during_its_bindings(own: Cluster, namespace: str, times: int) -> None:
    bound = []
    for i in range(times):
        make(own, namespace, job(f"gang-{i}", "10m", PODS_OF_A_BIG_GANG, gang(PODS_OF_A_BIG_GANG)))
        wait_until(lambda: nodes(own, namespace), "the first pod to have a node")
        bound.append(len(nodes(own, namespace)))
        own.kill("scheduler")
        wait_until(lambda: len(nodes(own, namespace)) == PODS_OF_A_BIG_GANG, "the whole gang to have its nodes")
        wait_until(lambda: is_scheduled(own, namespace, group_of(own, namespace, f"gang-{i}")), "the group to say so")  # noqa: B023
        own.kubectl("delete", "job", f"gang-{i}", "-n", namespace)
        wait_until(lambda: not own.get("pods", "-n", namespace)["items"], "its pods to go")
    assert times == 1 or any(count < PODS_OF_A_BIG_GANG for count in bound)


def test_resource_claim_of_a_podgroup_template_is_reserved_for_the_podgroup(own: Cluster, namespace: str) -> None:
    driver, version = f"{namespace}.example.com", "resource.k8s.io/v1"
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    slices = {"driver": driver, "pool": pool, "nodeName": "node-1", "devices": [{"name": "gpu-1"}]}
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    requests = [{"name": "one", "exactly": {"deviceClassName": namespace}}]
    template = {"spec": {"devices": {"requests": requests}}}
    shared = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
    container = {**pod_spec("10m")["containers"][0]}
    container["resources"] = {**container["resources"], "claims": [{"name": "gpu"}]}
    pods = [member(f"p{i}", "g", "10m", resourceClaims=[shared], containers=[container]) for i in range(2)]
    try:
        make(
            own,
            namespace,
            {"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": namespace}, "spec": slices},
            {"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": namespace}, "spec": {"selectors": [selector]}},
            {"apiVersion": version, "kind": "ResourceClaimTemplate", "metadata": {"name": "gpus"}, "spec": template},
            group("g", gang(2, resourceClaims=[shared])),
            *pods,
        )
        wait_until(lambda: nodes(own, namespace) == ["node-1", "node-1"], "both pods to be where the device is")
        (claim,) = own.get("resourceclaims", "-n", namespace)["items"]
        (reserved,) = claim["status"]["reservedFor"]
        uid = own.get(GROUPS, "g", "-n", namespace)["metadata"]["uid"]
        assert reserved == {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
    finally:
        own.kubectl("delete", f"resourceslice/{namespace}", f"deviceclass/{namespace}")


def test_vcjob_has_a_native_podgroup_with_conditions_that_is_deleted_with_it(own: Cluster, namespace: str, cpu: str) -> None:
    own.kubectl("cordon", "node-2", "node-3")
    try:
        make(own, namespace, volcano_job("ours", cpu, 3))
        wait_until(lambda: conditions(own, namespace), "the condition")
        wait_until(lambda: len(own.get("pods", "-n", namespace)["items"]) == 3, "the pods")
        shown = own.get(GROUPS, "-n", namespace)["items"][0]
        assert shown["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert conditions(own, namespace)["PodGroupInitiallyScheduled"][:2] == ("False", "Unschedulable")
        assert "Unschedulable" in own.kubectl("get", GROUPS, "-n", namespace)
        named = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in own.get("pods", "-n", namespace)["items"]}
        assert named == {shown["metadata"]["name"]}
    finally:
        own.kubectl("uncordon", "node-2", "node-3")
    wait_until(lambda: is_scheduled(own, namespace), "the group to say so")
    assert len(nodes(own, namespace)) == 3
    own.kubectl("delete", "jobs.batch.volcano.sh", "ours", "-n", namespace)
    wait_until(lambda: not own.get(GROUPS, "-n", namespace)["items"], "the group to go with the Job")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=WHOLE)])
def test_gangs_beside_kube_scheduler_start_whole_and_are_bound_by_one_scheduler_each(
    own: Cluster, namespace: str, cpu: str, count: int
) -> None:
    """Ours have a priority for which the others would be evicted, if they might be."""
    quick = {"containers": [{**pod_spec(cpu)["containers"][0], "command": ["sleep", "1"]}]}
    high = f"high-{namespace}"
    make(own, namespace, priority_class(high, 100))
    for i in range(count):
        for name, more in (("ours", {"schedulerName": "volcano", "priorityClassName": high}), ("theirs", {})):
            size = 1 + i % 3
            body = job(f"{name}-{i}", cpu, size, gang(size), pod={**quick, "schedulerName": "default-scheduler", **more})
            body["spec"]["backoffLimit"] = 0
            make(own, namespace, body)

    def ends() -> list[str]:
        jobs = own.get("jobs", "-n", namespace)["items"]
        found = [each["type"] for job in jobs for each in job["status"].get("conditions") or ()]
        return [each for each in found if each in {"Complete", "Failed"}]

    wait_until(lambda: len(ends()) == 2 * count, "all Jobs to end", seconds=60 + 10 * count)
    assert "Complete" in ends()  # a node refuses a pod where both took the same room at once, which ends that Job
    groups = (each["metadata"]["name"] for each in own.get(GROUPS, "-n", namespace)["items"])
    ours = {name for name in groups if name.startswith("ours-")}
    written: dict[str, set[str]] = {"ours": set(), "theirs": set()}
    for user, uri in writes(own, f"/namespaces/{namespace}/podgroups/"):
        written["theirs" if user == "system:kube-scheduler" else "ours"].add(uri.split("/")[7])
    assert written["ours"] <= ours
    assert not written["theirs"] & ours
    binders: dict[str, set[str]] = {}
    bound: dict[str, set[str]] = {}
    for user, uri in writes(own, "/binding", verb="create"):
        if uri.startswith(f"/api/v1/namespaces/{namespace}/pods/"):
            name = "-".join(uri.split("/")[6].split("-")[:2])
            binders.setdefault(name, set()).add(user)
            bound.setdefault(name, set()).add(uri)
    assert all(len(bound[f"ours-{i}"]) == 1 + i % 3 for i in range(count)), "each of our gangs started whole"
    assert {name.partition("-")[0]: users for name, users in binders.items()}.keys() == {"ours", "theirs"}
    assert all((users == {"system:kube-scheduler"}) is name.startswith("theirs-") for name, users in binders.items())
    assert all(len(users) == 1 for users in binders.values())
    pods = f"/namespaces/{namespace}/pods/theirs-"
    users = {user for verb in ("delete", "patch") for user, _ in writes(own, pods, verb=verb)}
    assert users
    assert not any(user.startswith("system:serviceaccount:") and "scheduler" in user for user in users)


def test_edit_role_permits_creating_podgroups_but_not_patching_their_status(own: Cluster, namespace: str) -> None:
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


STILL_SECONDS = 3.0
"""So long nothing may happen that should not."""


def uids(own: Cluster, namespace: str, prefix: str) -> set[str]:
    """Of the pods that are not on their way out."""
    pods = [pod["metadata"] for pod in own.get("pods", "-n", namespace)["items"]]
    return {meta["uid"] for meta in pods if meta["name"].startswith(prefix) and "deletionTimestamp" not in meta}


def test_preemption_evicts_the_pod_without_a_disruption_budget(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, group("low", gang(1)))
    for i in range(NODES):
        body = member(f"low-{i}", "low", cpu)
        body["metadata"]["labels"] = {"is": "protected" if i else "free"}
        make(own, namespace, body)
    budget = {"minAvailable": "100%", "selector": {"matchLabels": {"is": "protected"}}}
    make(own, namespace, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": budget})
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "all nodes to be taken")
    high = f"high-{namespace}"
    make(own, namespace, priority_class(high, 100), group("high", gang(1, priorityClassName=high)))
    make(own, namespace, member("high-0", "high", cpu, priorityClassName=high))
    wait_until(lambda: is_scheduled(own, namespace, "high"), "the gang of higher priority to start")
    left = {pod["metadata"]["name"] for pod in own.get("pods", "-n", namespace)["items"]}
    assert left == {"low-1", "low-2", "low-3", "high-0"}


@pytest.mark.parametrize(("keeps", "left"), [(2, 3), (1, 0)], ids=["not below what its queue deserves", "with all its pods"])
def test_gang_with_disruption_mode_all_is_reclaimed_whole_or_not_at_all(
    own: Cluster, namespace: str, cpu: str, keeps: int, left: int
) -> None:
    """The pod of another gang can be reclaimed in the first case; in the second it is protected."""
    taker, giver = (f"{each}-{namespace}" for each in ("taker", "giver"))
    for name, count in ((taker, NODES - keeps), (giver, keeps)):
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        make(own, namespace, {**body, "spec": {"deserved": {"cpu": str(count * int(cpu))}, "reclaimable": True}})
    whole, annotations = gang(3, disruptionMode={"all": {}}), {} if left else {"volcano.sh/preemptable": "false"}
    make(own, namespace, group("base", gang(1), labels={QUEUE: giver}, annotations=annotations), member("base-0", "base", cpu))
    make(own, namespace, group("low", whole, labels={QUEUE: giver}), *(member(f"low-{i}", "low", cpu) for i in range(3)))
    wait_until(lambda: len(nodes(own, namespace)) == NODES, "all nodes to be taken")
    make(own, namespace, group("mine", gang(1), labels={QUEUE: taker}), member("mine-0", "mine", cpu))
    wait_until(lambda: is_scheduled(own, namespace, "mine"), "the queue to take back what it deserves")
    assert len(uids(own, namespace, "low-")) == left
    assert len(uids(own, namespace, "base-")) == (0 if left else 1)
    if left:
        return
    wait_until(lambda: "DisruptionTarget" in conditions(own, namespace, "low"), "the group to say so")
    for i in range(3):  # the pods are told before they are deleted
        uri = f"/api/v1/namespaces/{namespace}/pods/low-{i}"
        requests = [json.loads(line) for line in own.audit_log.read_text().splitlines() if uri in line]
        ours = [each["verb"] for each in requests if "scheduler" in each["user"]["username"]]
        assert ours.index("patch") < ours.index("delete")


def test_pod_waits_until_a_node_has_the_topology_label(own: Cluster, namespace: str, cpu: str) -> None:
    spec = gang(1, schedulingConstraints={"topology": [{"key": "rack"}]})
    make(own, namespace, group("g", spec), member("p", "g", cpu))
    wait_until(lambda: conditions(own, namespace), "the condition")
    time.sleep(STILL_SECONDS)
    assert nodes(own, namespace) == []
    own.kubectl("label", "node", "node-2", "rack=r")
    try:
        wait_until(lambda: nodes(own, namespace) == ["node-2"], "the node with the label to be taken")
    finally:
        own.kubectl("label", "node", "node-2", "rack-")


def test_services_write_only_the_status_of_a_native_podgroup(own: Cluster, namespace: str, cpu: str) -> None:
    make(own, namespace, job("gang", cpu, 2, gang(2)))
    wait_until(lambda: is_scheduled(own, namespace), "the gang to start")
    name = group_of(own, namespace, "gang")
    uri = f"/namespaces/{namespace}/podgroups/{name}"
    for verb in ("patch", "update"):
        written = [found for user, found in writes(own, uri, verb=verb) if "pyroclast" in user or "volcano" in user]
        assert all("/status" in each for each in written)
    assert own.get(GROUPS, name, "-n", namespace)["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
STARTED = ("True", "Scheduled", "")


def members(cpu: str, **sizes: int) -> list[dict[str, object]]:
    return [member(f"{name}-{i}", name, cpu) for name, size in sizes.items() for i in range(size)]


def test_composite_podgroup_starts_all_groups_in_one_zone_and_sets_scheduled_conditions(
    own: Cluster, namespace: str, cpu: str
) -> None:
    """The pods come first, then their groups, then what these belong to."""
    make(own, namespace, *members(cpu, g=1, h=2))
    make(own, namespace, part("g", "c", 1), part("h", "d", 2))
    lacks = "CompositePodGroup c does not exist"  # before the scheduler has found the kind, it says that this is not served
    wait_until(lambda: lacks in str(conditions(own, namespace, "g")), "the group to say that it lacks its parent")
    make(own, namespace, composite("d", 1, parentCompositePodGroupName="c"), composite("c", 2, **ZONE))
    wait_until(lambda: nodes(own, namespace) == ["node-0", "node-1", "node-2"], "the whole to start")
    for name in ("c", "d"):
        scheduled = "CompositePodGroupInitiallyScheduled"
        wait_until(lambda: conditions(own, namespace, name, COMPOSITES).get(scheduled) == STARTED, f"{name} to say so")  # noqa: B023
    for name in ("g", "h"):
        wait_until(lambda: is_scheduled(own, namespace, name), f"{name} to say so")  # noqa: B023
    assert "Scheduled" in own.kubectl("get", GROUPS, "-n", namespace)
