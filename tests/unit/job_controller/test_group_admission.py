"""PodGroups that the controllers create: the rules of the webhooks, which leave the account of the controllers out."""

import asyncio
from typing import Any

import pytest

from pyroclast.api.types import NAMESPACES, POD_GROUPS, QUEUES, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.settings import parse
from pyroclast_job_controller.podgroup.controller import PATHS
from pyroclast_job_controller.settings import ControllerSettings

from .cluster import NS
from .memory_cluster import MemoryCluster, virtual_cluster
from .test_plain_pods import pod, workload


def namespace_with_queue(cluster: MemoryCluster, name: str, queue: str) -> None:
    annotations = {"scheduling.volcano.sh/queue-name": queue}
    cluster.server.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}
    )


def queue(cluster: MemoryCluster, name: str, state: str) -> None:
    body = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "parent": "root"},
    }
    cluster.server.create(QUEUES, {**body, "status": {"state": state}})


def queues_of_groups(cluster: MemoryCluster) -> list[str]:
    return [group["spec"].get("queue", "") for group in cluster.server.of(POD_GROUPS).values()]


@virtual_cluster(in_process_webhooks=PATHS)
async def test_the_group_of_a_job_in_the_default_queue_takes_the_queue_of_its_namespace(cluster: MemoryCluster) -> None:
    queue(cluster, "research", "Open")
    namespace_with_queue(cluster, NS, "research")
    await asyncio.sleep(1)
    cluster.job("a")
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    assert queues_of_groups(cluster) == ["research"]


@virtual_cluster(workloads=True, in_process_webhooks=PATHS)
async def test_podgroup_of_a_plain_pod_without_a_queue_takes_the_queue_of_its_namespace(cluster: MemoryCluster) -> None:
    queue(cluster, "research", "Open")
    namespace_with_queue(cluster, NS, "research")
    await asyncio.sleep(1)
    owner = workload(cluster, 1)
    await asyncio.sleep(1)
    pod(cluster, "w-0", owner)
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    assert queues_of_groups(cluster) == ["research"]


@pytest.mark.parametrize("webhooks", [(), PATHS[1:]])
def test_podgroup_stays_in_the_default_queue_without_the_in_process_mutating_webhook(webhooks: tuple[str, ...]) -> None:
    @virtual_cluster(in_process_webhooks=webhooks)
    async def takes_the_default_queue(cluster: MemoryCluster) -> None:
        namespace_with_queue(cluster, NS, "research")
        await asyncio.sleep(1)
        cluster.job("a")
        await cluster.until(lambda: cluster.server.of(POD_GROUPS))
        assert queues_of_groups(cluster) == ["default"]

    takes_the_default_queue()


@virtual_cluster(in_process_webhooks=PATHS)
async def test_podgroup_for_a_closed_queue_is_refused_with_the_message_of_the_webhook(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def event(_about: object, _type: str, _reason: str, message: str, **_: object) -> None:
        told.append(message)

    monkeypatch.setattr(cluster.replica.shared.recorder, "event", event)
    queue(cluster, "other", "Closed")
    await asyncio.sleep(1)
    cluster.job("a", queue="other")
    await cluster.until(lambda: told)
    assert len(cluster.server.of(POD_GROUPS)) == 0
    said = "can only submit PodGroup to queue with state `Open`, queue `other` status is `Closed`."
    assert (
        told[0] == f'Failed to create PodGroup, err: admission webhook "validatepodgroup.volcano.sh" denied the request: {said}'
    )


@virtual_cluster(in_process_webhooks=PATHS)
async def test_podgroup_is_created_when_its_queue_is_closed_only_in_the_stale_cache(
    cluster: MemoryCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue(cluster, "other", "Closed")
    await asyncio.sleep(1)
    view = cluster.replica.shared.caches.queue_views
    closed = view.get("other")
    assert closed is not None
    cluster.server.patch(QUEUES, Key("", "other"), {"status": {"state": "Open"}}, PatchKind.MERGE)
    await asyncio.sleep(1)
    known = view.get

    def lags(name: str) -> Any:
        return closed if name == "other" else known(name)

    monkeypatch.setattr(view, "get", lags)
    cluster.job("a", queue="other")
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    assert queues_of_groups(cluster) == ["other"]


@virtual_cluster(in_process_webhooks=PATHS, leader_elect_resource_namespace=NS)
async def test_podgroup_in_the_controller_namespace_is_exempt_from_the_webhook_rules(cluster: MemoryCluster) -> None:
    queue(cluster, "other", "Closed")
    await asyncio.sleep(1)
    cluster.job("a", queue="other")
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    assert queues_of_groups(cluster) == ["other"]


def test_in_process_webhooks_flag_refuses_a_webhook_of_the_admission_service(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(ControllerSettings, ["--in-process-webhooks=/queues/validate"], "controllers")
    assert "/queues/validate is applied by the admission service alone" in capsys.readouterr().err
