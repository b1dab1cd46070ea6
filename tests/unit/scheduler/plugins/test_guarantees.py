"""Queue guarantees, end to end: others get the rest, and the queue shows how much is kept for it although it does not use it."""

import pytest

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.http.client import PatchKind
from tests.unit.scheduler.shell.test_service import all_bound, queues_of

FLAT = ("{name: proportion}", "{name: capacity}")
TREE = "{name: capacity, enableHierarchy: true}"


def configured(folder, quota):
    """The flags of a scheduler with `quota`, the entry of a plugin that heeds guarantees."""
    file = folder / "conf"
    plugins = "{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}"
    file.write_text(f'actions: "enqueue, allocate, backfill"\ntiers: [{{plugins: [{plugins}, {quota}]}}]\n')
    return {"scheduler-conf": str(file)}


def reserved_is(cluster, name, want):
    async def look():
        queue = await cluster.client.get(QUEUES, Key("", name))
        return queue.get("status", {}).get("reservation", {}).get("resource", {}) == want

    return look


@pytest.mark.parametrize("quota", FLAT)
async def test_queue_status_reports_the_unused_guarantee_as_reservation(cluster, tmp_path, quota):
    """What the queue uses itself is no longer kept; a guarantee that goes keeps nothing."""
    await cluster.node("n1", cpu="8")
    async with cluster.scheduler(**configured(tmp_path, quota)):
        await cluster.until(lambda: queues_of(cluster))
        await cluster.queue("sure", guarantee={"resource": {"cpu": "6"}})
        await cluster.until(reserved_is(cluster, "sure", {"cpu": "6"}))
        await cluster.gang("large", 4, cpu="1")
        await cluster.gang("small", 2, cpu="1")
        await cluster.until(all_bound(cluster, "small-"))
        assert not any((await cluster.places("large-")).values()), "two of eight are left to the others"
        await cluster.gang("own", 2, cpu="2", queue="sure")
        await cluster.until(all_bound(cluster, "own-"))
        await cluster.until(reserved_is(cluster, "sure", {"cpu": "2"}))
        await cluster.client.patch(QUEUES, Key("", "sure"), {"spec": {"guarantee": None}}, PatchKind.MERGE)
        await cluster.until(reserved_is(cluster, "sure", {}))


async def test_usage_of_child_queues_reduces_the_reservation_of_the_parent_queue(cluster, tmp_path):
    await cluster.node("n1", cpu="8")
    async with cluster.scheduler(**configured(tmp_path, TREE)):
        await cluster.until(lambda: queues_of(cluster))
        guarantee = {"resource": {"cpu": "6"}}
        await cluster.queue("above", parent="root", capability={"cpu": "8"}, guarantee=guarantee)
        await cluster.queue("sure", parent="above", guarantee=guarantee)
        await cluster.queue("other", parent="above")
        for name in ("above", "sure"):
            await cluster.until(reserved_is(cluster, name, {"cpu": "6"}))
        await cluster.gang("large", 4, cpu="1", queue="other")
        await cluster.gang("small", 2, cpu="1", queue="other")
        await cluster.until(all_bound(cluster, "small-"))
        assert not any((await cluster.places("large-")).values()), "six of the eight of both are kept for the first"
        await cluster.until(reserved_is(cluster, "above", {"cpu": "4"}))
        await cluster.gang("own", 2, cpu="1", queue="sure")
        await cluster.until(all_bound(cluster, "own-"))
        await cluster.until(reserved_is(cluster, "above", {"cpu": "2"}))
        await cluster.until(reserved_is(cluster, "sure", {"cpu": "4"}))
