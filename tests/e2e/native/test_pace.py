"""Gangs of Kubernetes' own PodGroups start as fast as those of ours, with as many writes of the scheduler."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyroclast.api.types import NAMESPACES, NATIVE_POD_GROUPS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.natives import gang, native_cluster, nodes, pod_spec

PODS_IN_ALL = 1000
ROUNDS = 3
MOST = 1.1
CREATE_SECONDS = 300.0
WRITES = {"create", "update", "patch", "delete"}
NUMBERS = itertools.count()
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Measured:
    """How long it took until all pods had a node, and how many requests of the scheduler wrote something, for each pod."""

    seconds: float
    writes: float


@pytest.fixture(scope="module")
def own(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with native_cluster(control_plane, tmp_path_factory.mktemp("pace"), nodes=20) as cluster:
        yield cluster


@pytest.mark.parametrize("size", [1, PODS_IN_ALL], ids=["groups of one pod", "one group"])
def test_native_podgroups_need_at_most_10_percent_more_time_and_writes_than_volcano_podgroups(own: Cluster, size: int) -> None:
    found: dict[bool, list[Measured]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for is_native in (True, False):
            found[is_native].append(measured(own, size, is_native=is_native))
    native, ours = found[True], found[False]
    print(f"native {native}\nours   {ours}")
    assert min(each.writes for each in native) <= MOST * min(each.writes for each in ours)
    assert min(each.seconds for each in native) <= MOST * min(each.seconds for each in ours)


def measured(own: Cluster, size: int, *, is_native: bool) -> Measured:
    """Make groups of so many pods, and take them away again."""
    namespace = f"pace-{next(NUMBERS)}"
    began = time.monotonic()
    asyncio.run(_make(own, namespace, size, is_native=is_native))
    wait_until(lambda: len(nodes(own, namespace)) == PODS_IN_ALL, "all pods to have nodes", seconds=600)
    seconds = time.monotonic() - began
    time.sleep(10)  # what is told of them afterwards counts too
    written = _written(own, namespace)
    own.kubectl("delete", "namespace", namespace, "--wait=false")
    wait_until(lambda: not own.get("pods", "-n", namespace)["items"], "all pods to go", seconds=600)
    asyncio.run(_gone(own, namespace))
    return Measured(round(seconds, 1), round(written / PODS_IN_ALL, 2))


async def _make(own: Cluster, namespace: str, size: int, *, is_native: bool) -> None:
    async with Client(load_config(str(own.kubeconfig)), max_in_flight=16) as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        groups = [_group(f"g-{i}", namespace, size, is_native=is_native) for i in range(PODS_IN_ALL // size)]
        kind = NATIVE_POD_GROUPS if is_native else POD_GROUPS
        await asyncio.gather(*(client.create(kind, each, deadline=Deadline.after(CREATE_SECONDS)) for each in groups))
        pods = [_pod(i, f"g-{i // size}", namespace, is_native=is_native) for i in range(PODS_IN_ALL)]
        await asyncio.gather(*(client.create(PODS, each, deadline=Deadline.after(CREATE_SECONDS)) for each in pods))


async def _gone(own: Cluster, namespace: str) -> None:
    async with Client(load_config(str(own.kubeconfig))) as client:
        while True:
            try:
                await client.get(NAMESPACES, Key("", namespace))
            except NotFound:
                return
            await asyncio.sleep(0.5)


def _group(name: str, namespace: str, size: int, *, is_native: bool) -> dict[str, Any]:
    kind = NATIVE_POD_GROUPS if is_native else POD_GROUPS
    spec = gang(size) if is_native else {"minMember": size, "queue": "default"}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _pod(number: int, group: str, namespace: str, *, is_native: bool) -> dict[str, Any]:
    annotations = {} if is_native else {"scheduling.k8s.io/group-name": group}
    spec = pod_spec("1m", **({"schedulingGroup": {"podGroupName": group}} if is_native else {}))
    metadata = {"name": f"p-{number}", "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _written(own: Cluster, namespace: str) -> int:
    """How many requests of the scheduler wrote something about the namespace, Events apart: these are told in bulk."""
    count = 0
    for line in own.audit_log.read_text().splitlines():
        if f"/namespaces/{namespace}/" in line and "pyroclast-scheduler" in line and "/events" not in line:
            count += json.loads(line)["verb"] in WRITES
    return count
