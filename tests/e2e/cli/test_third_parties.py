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
    from kubernetes_asyncio import client, config

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
