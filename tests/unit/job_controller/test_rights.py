"""Writes that the controller may not do: said once on the object, tried ever more rarely, done when the right is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyroclast.api.types import (
    COMMANDS,
    CONFIG_MAPS,
    CRON_JOBS,
    HYPER_JOBS,
    HYPER_NODES,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Key,
    ResourceType,
)
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.events.recorder import EventRecorder, Reference

from .cluster import NS, authorized, task
from .memory_cluster import MemoryCluster, virtual_cluster
from .test_hypernodes import LABELS, NAME

TEN_MINUTES = 600.0
MOST_TRIES = 15
JOB = {"minAvailable": 1, "queue": "default", "schedulerName": "volcano", "tasks": [task()]}


class Guard:
    """The API server without a right for one verb on one kind; counts how often it is tried."""

    def __init__(self, cluster: MemoryCluster, verb: str, kind: ResourceType) -> None:
        self.tries, self.is_shut = 0, True
        client: Any = cluster.replica.client
        do = getattr(client, verb)

        async def guarded(of: ResourceType, *args: Any, **more: Any) -> Any:
            if of is kind and self.is_shut:
                self.tries += 1
                raise Forbidden(403, "Forbidden", f"may not {verb} {kind.plural}")
            return await do(of, *args, **more)

        setattr(client, verb, guarded)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str, str]]:
    events: list[tuple[str, str, str, str]] = []

    def event(_: object, about: Reference, type_: str, reason: str, message: str, **__: Any) -> None:
        events.append((about.kind, type_, reason, message))

    monkeypatch.setattr(EventRecorder, "event", event)
    return events


def body(kind: ResourceType, name: str = "x", **parts: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": NS} if kind.namespaced else {}), **parts.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **parts}


def _job(cluster: MemoryCluster) -> None:
    cluster.server.create(JOBS, body(JOBS, spec=JOB))


def _cron_job(cluster: MemoryCluster) -> None:
    cluster.server.create(CRON_JOBS, body(CRON_JOBS, spec={"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}))


def _hyper_job(cluster: MemoryCluster) -> None:
    entry = {"name": "a", "replicas": 1, "templateSpec": JOB}
    cluster.server.create(HYPER_JOBS, body(HYPER_JOBS, spec={"minAvailable": 1, "replicatedJobs": [entry]}))


def _queue(cluster: MemoryCluster) -> None:
    cluster.server.create(QUEUES, body(QUEUES, spec={"weight": 1}))


def _hyper_node(cluster: MemoryCluster) -> None:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]
    cluster.server.create(HYPER_NODES, body(HYPER_NODES, spec={"tier": 1, "members": members}))


def _pod(cluster: MemoryCluster) -> None:
    cluster.server.create(PODS, body(PODS, spec={"schedulerName": "volcano", "containers": []}))


def _command(cluster: MemoryCluster) -> None:
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "default", "uid": "of-before"}
    cluster.server.create(COMMANDS, authorized("CloseQueue", target, name="x"))


CASES: dict[str, tuple[Callable[[MemoryCluster], None], str, ResourceType, str]] = {
    "the status of a Job": (_job, "patch", JOBS, "Job"),
    "the status of a CronJob": (_cron_job, "patch", CRON_JOBS, "CronJob"),
    "the status of a HyperJob": (_hyper_job, "patch", HYPER_JOBS, "HyperJob"),
    "the parent of a Queue": (_queue, "patch", QUEUES, "Queue"),
    "the count of a HyperNode": (_hyper_node, "patch", HYPER_NODES, "HyperNode"),
    "the annotation of a pod": (_pod, "patch", PODS, "Pod"),
    "the PodGroup of a pod": (_pod, "create", POD_GROUPS, "Pod"),
    "a Command that is to be taken": (_command, "delete", COMMANDS, "Command"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@virtual_cluster()
async def test_forbidden_write_is_reported_once_retried_rarely_and_done_once_it_is_allowed(
    cluster: MemoryCluster,
    case: tuple[Callable[[MemoryCluster], None], str, ResourceType, str],
    said: list[tuple[str, str, str, str]],
) -> None:
    make, verb, kind, want_about = case
    guard = Guard(cluster, verb, kind)
    make(cluster)
    await asyncio.sleep(TEN_MINUTES)
    told = [event for event in said if "may not" in event[3]]
    assert [(about, type_) for about, type_, _, _ in told] == [(want_about, "Warning")]
    assert 5 < guard.tries < MOST_TRIES
    guard.is_shut = False
    before = cluster.server.writes[verb, kind.qualified]
    await asyncio.sleep(300)
    assert cluster.server.writes[verb, kind.qualified] - before > 0


@virtual_cluster()
async def test_recreated_queue_is_written_at_once_despite_refusals_for_the_deleted_queue(cluster: MemoryCluster) -> None:
    guard = Guard(cluster, "patch", QUEUES)
    _queue(cluster)
    await asyncio.sleep(TEN_MINUTES)
    guard.is_shut = False
    cluster.server.delete(QUEUES, Key("", "x"))
    _queue(cluster)
    await asyncio.sleep(1)
    assert cluster.server.of(QUEUES)[Key("", "x")]["spec"].get("parent") == "root"


@virtual_cluster()
async def test_podgroup_changes_do_not_cause_extra_retries_of_a_forbidden_queue_write(cluster: MemoryCluster) -> None:
    guard = Guard(cluster, "patch", QUEUES)
    _queue(cluster)
    for number in range(100):
        group = body(POD_GROUPS, f"g{number}", spec={"minMember": 1, "queue": "x"}, status={"phase": "Running"})
        cluster.server.create(POD_GROUPS, group)
        await asyncio.sleep(TEN_MINUTES / 100)
    assert guard.tries < MOST_TRIES


@virtual_cluster()
async def test_a_cron_job_whose_status_may_not_be_written_makes_no_job_twice(cluster: MemoryCluster) -> None:
    """The name of a Job that has gone is free, and nothing but the status would tell that its time was acted on."""
    guard = Guard(cluster, "patch", CRON_JOBS)
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": JOB}}
    cluster.server.create(CRON_JOBS, body(CRON_JOBS, spec=spec))
    await asyncio.sleep(3600)
    (key,) = list(cluster.server.of(JOBS))
    cluster.server.delete(JOBS, key)
    await asyncio.sleep(TEN_MINUTES)
    while_shut = cluster.server.writes["create", JOBS.qualified]
    guard.is_shut = False
    await asyncio.sleep(300)
    assert cluster.server.of(CRON_JOBS)[Key(NS, "x")]["status"]["lastScheduleTime"]
    assert (while_shut, cluster.server.writes["create", JOBS.qualified]) == (1, 1)


@virtual_cluster()
async def test_forbidden_hypernode_does_not_stop_the_creation_of_other_hypernodes(
    cluster: MemoryCluster, said: list[tuple[str, str, str, str]]
) -> None:
    client: Any = cluster.replica.client
    create, refused = client.create, []

    async def guarded(kind: ResourceType, body: Any, **more: Any) -> Any:
        if kind is HYPER_NODES and body["spec"]["members"][0]["selector"]["exactMatch"]["name"] == "n0":
            refused.append(body["metadata"]["name"])
            raise Forbidden(403, "Forbidden", "may not create hypernodes")
        return await create(kind, body, **more)

    client.create = guarded
    configuration = body(CONFIG_MAPS, NAME, metadata={"namespace": "volcano-system"}, data={"volcano-controller.conf": LABELS})
    cluster.server.create(CONFIG_MAPS, configuration)
    for number in range(20):
        labels = {"rack": f"r{number}", "row": f"row{number}"}
        cluster.server.create(NODES, body(NODES, f"n{number}", metadata={"labels": labels}))
        await asyncio.sleep(30)
    assert len(set(refused)) == 1
    assert [(about, text) for about, _, _, text in said] == [
        ("ConfigMap", "Failed to update configmap, err: may not create hypernodes")
    ]
    assert len(cluster.server.of(HYPER_NODES)) == 39
    assert len(refused) < MOST_TRIES
