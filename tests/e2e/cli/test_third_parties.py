"""Clients that people have already, unmodified: the writes that each sends, in its order, and what it reads back.

The sequences were taken down from the sources of these clients; `docs/reference/third-parties.md` tells what holds for whom.
"""

from __future__ import annotations

import asyncio
import copy
import json
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the library does at import is not ours to mend
    from kubernetes_asyncio import client, config, watch

JOBS = ("batch.volcano.sh", "v1alpha1")
GROUPS = ("scheduling.volcano.sh", "v1beta1")
SECONDS = 60.0
CYCLES = 3.5
"""Seconds in which the scheduler has looked at everything more than once."""
SYNCS = 100
ENOUGH = {"cpu": "200m", "memory": "64Mi"}


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[client.ApiClient]:
    await config.load_kube_config(str(cluster.kubeconfig))
    async with client.ApiClient() as api_client:
        yield api_client


class Objects:
    """The custom objects of one kind in one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str, group: tuple[str, str], plural: str) -> None:
        self._custom, self._of = client.CustomObjectsApi(api), (*group, namespace, plural)

    async def post(self, body: dict[str, Any], **query: Any) -> dict[str, Any]:
        return dict(await self._custom.create_namespaced_custom_object(*self._of, body, **query))

    async def get(self, name: str) -> dict[str, Any]:
        return dict(await self._custom.get_namespaced_custom_object(*self._of, name))

    async def put(self, body: dict[str, Any], **query: Any) -> dict[str, Any]:
        name = body["metadata"]["name"]
        return dict(await self._custom.replace_namespaced_custom_object(*self._of, name, body, **query))

    async def delete(self, name: str) -> None:
        await self._custom.delete_namespaced_custom_object(*self._of, name)

    async def put_status(self, body: dict[str, Any]) -> dict[str, Any]:
        return dict(await self._custom.replace_namespaced_custom_object_status(*self._of, body["metadata"]["name"], body))

    async def status_of(self, name: str) -> dict[str, Any]:
        return dict((await self._custom.get_namespaced_custom_object_status(*self._of, name)).get("status") or {})

    async def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        how = {"field_manager": "trainer", "force": True, "_content_type": "application/apply-patch+yaml"}
        name = body["metadata"]["name"]
        await self._custom.patch_namespaced_custom_object(*self._of, name, body, **how)  # tells nothing of what it made
        return await self.get(name)

    async def names(self) -> list[str]:
        found = await self._custom.list_namespaced_custom_object(*self._of)
        return [item["metadata"]["name"] for item in found["items"]]

    async def reaches(self, name: str, *phases: str) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while (found := phase_of(await self.get(name))) not in phases:
            assert time.monotonic() < deadline, f"{name} is {found!r}, not {' or '.join(phases)}"
            await asyncio.sleep(0.2)
        return await self.get(name)


@pytest.fixture
def jobs(api: client.ApiClient, namespace: str) -> Objects:
    return Objects(api, namespace, JOBS, "jobs")


@pytest.fixture
def groups(api: client.ApiClient, namespace: str) -> Objects:
    return Objects(api, namespace, GROUPS, "podgroups")


def phase_of(item: dict[str, Any]) -> str:
    status = item.get("status") or {}
    return str(status.get("state", status).get("phase", ""))


def version_of(item: dict[str, Any]) -> str:
    return str(item["metadata"]["resourceVersion"])


def podgroup(name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"apiVersion": "/".join(GROUPS), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    return {**body, **more}


def torchx_job(name: str, *roles: tuple[str, int], retries: int = 0) -> dict[str, Any]:
    """What `torchx run -s kubernetes` posts: one task of one replica for each replica of a role."""
    policies = [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")] if retries else []
    tasks = []
    for role, replicas in roles:
        for index in range(replicas):
            container = {"name": f"{role}-{index}", "image": "busybox", "command": ["sleep", "600"]}
            container["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]
            volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
            spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], "volumes": volumes}
            task = {"replicas": 1, "name": f"{role}-{index}", "template": {"metadata": {}, "spec": spec}, "maxRetry": retries}
            tasks.append({**task, "policies": policies})
    plugins: dict[str, list[str]] = {"svc": ["--publish-not-ready-addresses"], "env": []}
    spec = {"schedulerName": "volcano", "queue": "default", "tasks": tasks, "maxRetry": retries, "plugins": plugins}
    return {"apiVersion": "/".join(JOBS), "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def pods_of(api: client.ApiClient, namespace: str) -> dict[str, str]:
    found = await client.CoreV1Api(api).list_namespaced_pod(namespace)
    return {pod.metadata.name: pod.status.phase for pod in found.items if pod.metadata.deletion_timestamp is None}


async def pod(api: client.ApiClient, namespace: str, name: str, group: str, **annotations: str) -> None:
    """What operators make of a template: bound to a PodGroup by the annotation, with the scheduler named."""
    container = {"name": "c", "image": "busybox", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "100m"}}}
    meta = {"name": name, "annotations": {"scheduling.k8s.io/group-name": group, **annotations}}
    spec = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container]}
    await client.CoreV1Api(api).create_namespaced_pod(namespace, {"metadata": meta, "spec": spec})


async def all_run(api: client.ApiClient, namespace: str, number: int) -> None:
    deadline = time.monotonic() + SECONDS
    while (phases := list((await pods_of(api, namespace)).values())) != ["Running"] * number:
        assert time.monotonic() < deadline, phases
        await asyncio.sleep(0.2)


async def test_torchx_job_dry_runs_runs_is_aborted_by_status_write_and_resumes(
    cluster: Cluster, api: client.ApiClient, namespace: str, jobs: Objects, groups: Objects
) -> None:
    body = torchx_job("train", ("worker", 2), retries=2)
    await jobs.post(body, dry_run="All")
    await asyncio.sleep(1)
    assert (await jobs.names(), await groups.names(), await pods_of(api, namespace)) == ([], [], {})
    await jobs.post(body)
    assert (await jobs.get("train"))["metadata"]["name"] == "train"  # at once
    while not (status := await jobs.status_of("train")):
        await asyncio.sleep(0)
    assert status["state"]["phase"]
    await jobs.reaches("train", "Running")
    counts = (await jobs.status_of("train"))["taskStatusCount"]
    assert {task: list(each["phase"]) for task, each in counts.items()} == {"worker-0": ["Running"], "worker-1": ["Running"]}
    assert set(await pods_of(api, namespace)) == {"train-worker-0-0", "train-worker-1-0"}

    stale = await jobs.get("train")
    stale["metadata"]["resourceVersion"] = "1"
    stale["status"]["state"]["phase"] = "Aborted"
    with pytest.raises(client.ApiException) as caught:
        await jobs.put_status(stale)
    assert caught.value.status == 409
    current = await jobs.get("train")
    current["status"]["state"]["phase"] = "Aborted"
    await jobs.put_status(current)
    deadline = time.monotonic() + SECONDS
    while await pods_of(api, namespace) or await groups.names():
        assert time.monotonic() < deadline, "pods or PodGroup are left"
        assert phase_of(await jobs.get("train")) == "Aborted"
        await asyncio.sleep(0.2)
    await asyncio.sleep(2)
    aborted = await jobs.get("train")
    assert phase_of(aborted) == "Aborted"
    assert aborted["status"].get("running", 0) == 0

    target = {"apiVersion": "/".join(JOBS), "kind": "Job", "name": "train", "uid": aborted["metadata"]["uid"]}
    order = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": "ResumeJob", "target": target}
    cluster.create(json.dumps({**order, "metadata": {"generateName": "resume-"}}), namespace)
    await jobs.reaches("train", "Running")


def used_of(quota: dict[str, Any]) -> dict[str, str]:
    return (quota.get("status") or {}).get("used") or {}


async def test_dry_run_is_validated_and_defaulted_but_uses_no_quota(
    cluster: Cluster, api: client.ApiClient, namespace: str, jobs: Objects
) -> None:
    counted = "pods=1" if cluster.control_plane == "real" else "count/jobs.batch.volcano.sh=1,pods=1"
    cluster.kubectl("create", "quota", "q", "-n", namespace, f"--hard={counted}")  # the real one takes minutes to count new kinds
    before = version_of(cluster.get("quota", "q", "-n", namespace))
    wrong = torchx_job("train", ("worker", 1))
    wrong["spec"]["queue"] = "nowhere"
    with pytest.raises(client.ApiException) as caught:
        await jobs.post(wrong, dry_run="All")
    assert 'queue.scheduling.volcano.sh "nowhere" not found' in json.loads(caught.value.body)["message"]
    for _ in range(3):
        shown = await jobs.post(torchx_job("train", ("worker", 1)), dry_run="All")
    assert (shown["spec"]["maxRetry"], shown["spec"]["minAvailable"]) == (3, 1)  # the defaults show
    settled = cluster.get("quota", "q", "-n", namespace)
    assert version_of(settled) == before or set(used_of(settled).values()) <= {"0"}
    assert await jobs.names() == []
    assert namespace not in cluster.metrics("job-controller") + cluster.metrics("scheduler")
    await jobs.post(torchx_job("train", ("worker", 1)))  # there is room for one


def writes(cluster: Cluster, namespace: str, before: int) -> list[tuple[str, str, str]]:
    """Who wrote what of which PodGroup of the namespace, after the first `before` requests."""
    return [
        (event["user"]["username"], event["verb"], event["objectRef"]["name"])
        for event in islice(cluster.audit.events(), before, None)
        if event.get("objectRef", {}).get("resource") == "podgroups"
        and event["objectRef"].get("namespace") == namespace
        and event["verb"] in {"create", "update", "patch", "delete"}
    ]


def ours(written: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those of programs that run in the cluster; operators and tests write as users."""
    return [each for each in written if each[0].startswith("system:serviceaccount:")]


async def test_podgroup_is_enqueued_before_pods_exist_and_training_operator_syncs_cause_no_writes(
    cluster: Cluster, api: client.ApiClient, namespace: str, groups: Objects
) -> None:
    spec = {"minMember": 2, "queue": "default", "minResources": ENOUGH}
    await groups.post(podgroup("job", spec))

    async def sync() -> dict[str, Any]:
        while True:
            there = await groups.get("job")
            there["spec"] = copy.deepcopy(spec)
            try:
                return await groups.put(there)
            except client.ApiException as error:
                if error.status != 409:  # the scheduler wrote in between: the operator syncs again
                    raise

    deadline = time.monotonic() + SECONDS
    while phase_of(await sync()) in {"", "Pending"}:
        assert time.monotonic() < deadline, "no pod would ever be made"
        await asyncio.sleep(0.2)
    assert phase_of(await groups.get("job")) == "Inqueue"
    await asyncio.sleep(CYCLES)
    assert phase_of(await groups.get("job")) == "Inqueue"  # it stays so while the pods are made
    for number in range(2):
        await pod(api, namespace, f"job-worker-{number}", "job", **{"volcano.sh/task-spec": "worker"})
    await all_run(api, namespace, 2)
    await groups.reaches("job", "Running")
    await asyncio.sleep(CYCLES)
    version, before = version_of(await groups.get("job")), sum(1 for _ in cluster.audit.events())
    for _ in range(SYNCS):
        assert version_of(await sync()) == version  # an equal write is none
    await asyncio.sleep(CYCLES)
    assert version_of(await groups.get("job")) == version  # nor do we answer it
    assert ours(writes(cluster, namespace, before)) == []
    assert len(writes(cluster, namespace, before)) == SYNCS


@pytest.fixture
def queue(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A queue of the test's own."""
    kind = {"apiVersion": "/".join(GROUPS), "kind": "Queue"}
    cluster.create(json.dumps({**kind, "metadata": {"name": namespace}, "spec": {"weight": 1}}))
    yield namespace
    cluster.kubectl("delete", "podgroups", "--all", "-n", namespace)


async def test_podgroup_replaced_without_a_queue_keeps_the_queue_of_its_namespace(
    cluster: Cluster, namespace: str, groups: Objects, queue: str
) -> None:
    cluster.kubectl("annotate", "namespace", namespace, f"scheduling.volcano.sh/queue-name={queue}")
    deadline = time.monotonic() + SECONDS
    while (made := await groups.post(podgroup("p", {"minMember": 1}), dry_run="All"))["spec"]["queue"] != queue:
        assert time.monotonic() < deadline, "the webhook does not see the annotation"
        await asyncio.sleep(0.2)
    await groups.post(podgroup("p", {"minMember": 1, "minResources": ENOUGH}))
    there = await groups.reaches("p", "Inqueue")
    there["spec"] = {"minMember": 1, "minResources": ENOUGH}
    replaced = await groups.put(there)
    assert (replaced["spec"]["queue"], version_of(replaced)) == (queue, version_of(made := await groups.get("p")))
    assert made["spec"]["queue"] == queue


async def test_replacing_a_running_job_with_its_manifest_without_defaults_changes_no_spec(
    cluster: Cluster, namespace: str, jobs: Objects
) -> None:
    body = torchx_job("again", ("a", 2))
    del body["spec"]["schedulerName"], body["spec"]["queue"], body["spec"]["maxRetry"]
    for task in body["spec"]["tasks"]:
        del task["maxRetry"]
    await jobs.post(body)
    there = await jobs.reaches("again", "Running")
    cluster.kubectl("replace", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    again = await jobs.get("again")
    assert (again["spec"], again["metadata"]["generation"]) == (there["spec"], there["metadata"]["generation"])


async def is_counted(cluster: Cluster, groups: Objects, name: str, queue: str, *, running: int) -> None:
    """Wait until so many pods of the PodGroup run by its status, and its queue has as many."""
    deadline = time.monotonic() + SECONDS
    while True:
        status = (await groups.get(name)).get("status") or {}
        allocated = (cluster.get("queue", queue).get("status") or {}).get("allocated") or {}
        if (status.get("running"), allocated.get("pods")) == (running, str(running)):
            return
        assert time.monotonic() < deadline, (status, allocated)
        await asyncio.sleep(0.2)


async def test_kuberay_podgroup_created_with_a_status_runs_scales_up_and_shrinks(
    cluster: Cluster, api: client.ApiClient, namespace: str, groups: Objects, queue: str
) -> None:
    spec = {"minMember": 2, "queue": queue, "minResources": {**ENOUGH, "cpu": "300m"}}  # with that of the submitter
    await groups.post(podgroup("ray-c-pg", spec, status={"phase": "Pending"}))
    for number in range(2):
        await pod(api, namespace, f"c-{number}", "ray-c-pg", **{"volcano.sh/task-spec": "headgroup" if number == 0 else "small"})
    await all_run(api, namespace, 2)
    there = await groups.reaches("ray-c-pg", "Running")
    assert {name: there["spec"][name] for name in spec} == spec  # read back without a look whether they are there
    await is_counted(cluster, groups, "ray-c-pg", queue, running=2)
    await shaped(groups, "ray-c-pg", minMember=3, minResources={**ENOUGH, "cpu": "400m"})
    await pod(api, namespace, "c-2", "ray-c-pg", **{"volcano.sh/task-spec": "small"})
    await all_run(api, namespace, 3)
    await is_counted(cluster, groups, "ray-c-pg", queue, running=3)
    await shaped(groups, "ray-c-pg", minMember=1, minResources=ENOUGH)
    await asyncio.sleep(CYCLES)
    there = await groups.get("ray-c-pg")
    assert (there["spec"]["minMember"], there["spec"]["minResources"], phase_of(there)) == (1, ENOUGH, "Running")
    assert await pods_of(api, namespace) == dict.fromkeys(("c-0", "c-1", "c-2"), "Running")


async def shaped(groups: Objects, name: str, **spec: Any) -> None:
    """PUT the group with this of its spec, again when somebody else wrote in between."""
    while True:
        there = await groups.get(name)
        there["spec"].update(spec)
        try:
            await groups.put(there)
        except client.ApiException as error:
            if error.status != 409:
                raise
        else:
            return


@pytest.mark.parametrize(
    ("minimum", "pods"),
    [(1, ("driver", "exec-1", "exec-2")), (3, ("mpi-launcher", "mpi-worker-0", "mpi-worker-1"))],
    ids=["spark-operator", "mpi-operator"],
)
async def test_pods_of_spark_and_mpi_operators_keep_running_when_their_podgroup_is_deleted(
    cluster: Cluster, api: client.ApiClient, namespace: str, groups: Objects, queue: str, minimum: int, pods: tuple[str, ...]
) -> None:
    spec = {"minMember": minimum, "queue": queue, "minResources": {"cpu": "300m"}}
    await groups.post(podgroup("app", spec))
    for name in pods:
        await pod(api, namespace, name, "app")
    await all_run(api, namespace, 3)
    assert (await groups.reaches("app", "Running"))["spec"] == spec
    await is_counted(cluster, groups, "app", queue, running=3)
    await groups.delete("app")
    assert await groups.names() == []
    assert await pods_of(api, namespace) == dict.fromkeys(pods, "Running"), "the operators end their own pods"


async def test_podgroup_status_is_restored_after_a_typed_client_writes_only_the_phase(
    api: client.ApiClient, namespace: str, groups: Objects
) -> None:
    await groups.post(podgroup("typed", {"minMember": 1, "minResources": ENOUGH}))
    await pod(api, namespace, "p", "typed")
    await all_run(api, namespace, 1)
    there = await groups.reaches("typed", "Running")
    known = {"phase", "conditions", "running", "succeeded", "failed"}
    assert set(there["status"]) <= known
    there["status"] = {"phase": there["status"]["phase"]}
    await groups.put(there)
    await asyncio.sleep(CYCLES)
    there = await groups.get("typed")
    assert (there["status"]["phase"], there["status"]["running"], there["spec"]["minResources"]) == ("Running", 1, ENOUGH)


async def test_spark_pods_run_in_a_podgroup_created_with_an_empty_spec(
    api: client.ApiClient, namespace: str, groups: Objects
) -> None:
    made = await groups.post(podgroup("spark-1-podgroup", {}))
    assert made["spec"] == {"queue": "default"}
    for name in ("driver", "exec-1", "exec-2"):
        await pod(api, namespace, name, "spark-1-podgroup")
    await all_run(api, namespace, 3)
    assert (await groups.get("spark-1-podgroup"))["spec"].get("minMember", 0) == 0


async def test_trainer_repeated_apply_of_a_podgroup_changes_no_resource_version(
    cluster: Cluster, api: client.ApiClient, namespace: str, groups: Objects, queue: str
) -> None:
    applied = podgroup("t", {"minMember": 2, "queue": queue, "minResources": ENOUGH})
    await groups.apply(applied)
    there = await groups.reaches("t", "Inqueue")
    assert version_of(await groups.apply(applied)) == version_of(there)
    assert (await groups.get("t"))["status"]["phase"] == "Inqueue"
    for number in range(2):
        await pod(api, namespace, f"t-node-0-{number}", "t")
    await all_run(api, namespace, 2)
    await is_counted(cluster, groups, "t", queue, running=2)
    there = await groups.get("t")
    assert version_of(await groups.apply(applied)) == version_of(there)


async def test_pods_of_one_workflow_share_the_queue_of_the_first_pod_and_others_get_an_event(
    api: client.ApiClient, namespace: str, groups: Objects, queue: str
) -> None:
    made = await client.CoreV1Api(api).create_namespaced_config_map(namespace, {"metadata": {"name": "workflow"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "workflow", "uid": made.metadata.uid, "controller": True}
    for name, asked in (("first", "default"), ("second", queue)):
        container = {"name": "c", "image": "busybox", "command": ["sleep", "600"]}
        meta = {"name": name, "ownerReferences": [owner], "annotations": {"scheduling.volcano.sh/queue-name": asked}}
        spec = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container]}
        await client.CoreV1Api(api).create_namespaced_pod(namespace, {"metadata": meta, "spec": spec})
        await all_run(api, namespace, 1 if name == "first" else 2)
    (group,) = await groups.names()
    assert (await groups.get(group))["spec"]["queue"] == "default"

    async def told() -> list[tuple[str, str]]:
        found = await client.CoreV1Api(api).list_namespaced_event(namespace, field_selector="reason=QueueNotTaken")
        return [(event.involved_object.name, event.message) for event in found.items]

    deadline = time.monotonic() + SECONDS
    while not (events := await told()):
        assert time.monotonic() < deadline, "nothing is said of the queue"
        await asyncio.sleep(0.2)
    ((about, message),) = events
    assert about == "second"
    assert message.startswith(f'queue "{queue}" is not taken: ')


async def test_watch_from_the_list_resource_version_yields_later_changes(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    for number in range(3):
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": f"c{number}", "labels": {"made-by": "test"}}})
    # the cluster adds one of its own at any time
    listed = await core.list_namespaced_config_map(namespace, label_selector="made-by=test")
    names = {item.metadata.name for item in listed.items}
    assert names == {"c0", "c1", "c2"}
    await core.patch_namespaced_config_map("c0", namespace, {"data": {"colour": "red"}})
    await core.delete_namespaced_config_map("c1", namespace)
    seen = []
    async with watch.Watch() as watching:
        version = listed.metadata.resource_version
        async for event in watching.stream(
            core.list_namespaced_config_map, namespace, label_selector="made-by=test", resource_version=version, timeout_seconds=5
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                break
    assert seen == [("MODIFIED", "c0"), ("DELETED", "c1")]
