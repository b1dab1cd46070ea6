"""The service places a gang before its pods exist: what it writes, and what it does when they do not come."""

import asyncio

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, NODES, POD_GROUPS, PODS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.seats.contract import Seat, Seats, TaskSeats, asking, encode, parse_placement, template_of
from pyroclast_scheduler.shell import seat_keeper
from tests.unit.scheduler.cache.test_seats import changed, objects
from tests.unit.scheduler.conftest import GROUP
from tests.unit.scheduler.shell.test_service import all_bound, phase_is, queues_of

PLACES = {"place-before-pods": "true"}


def seats(name, size, cpu):
    pod = changed(objects.pod([f"{name}-w-0", name, "-", cpu, "1Gi", {"role": "w"}]), spec__schedulerName="volcano")
    return Seats(tasks=(TaskSeats(role="w", prefix=f"{name}-w-", count=size, pod=template_of(pod)),))


async def group(cluster, name, size, *, cpu=1, text=None):
    annotations = {keys.SEATS: text or encode(seats(name, size, cpu))}
    await cluster.make(POD_GROUPS, name, {"minMember": size, "queue": "default"}, annotations=annotations)


def placement(cluster, name):
    async def look():
        text = (await cluster.group(name))["metadata"].get("annotations", {}).get(keys.PLACEMENT)
        return parse_placement(text) if text else None

    return look


def no_placement(cluster, name):
    async def look():
        return keys.PLACEMENT not in (await cluster.group(name))["metadata"].get("annotations", {})

    return look


async def create(cluster, name, index, node):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"schedulerName": "volcano", "containers": [container], **({"nodeName": node} if node else {})}
    await cluster.make(PODS, f"{name}-w-{index}", spec, annotations={GROUP: name, keys.TASK_SPEC: "w"})


async def reasons(cluster):
    events, _ = await cluster.client.list(EVENTS)
    return [event["reason"] for event in events]


def withdrawn(cluster, why):
    async def look():
        found = await placement(cluster, "g")()
        return found is not None and found.withdrawn == why

    return look


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(seat_keeper, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(seat_keeper, "ABANDONED_SECONDS", 1.0)
    monkeypatch.setattr(seat_keeper, "_LOOK_SECONDS", 0.1)


async def test_placement_and_phase_are_written_to_the_podgroup_in_one_patch(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with cluster.scheduler(**PLACES):
        await cluster.until(lambda: queues_of(cluster))
        cluster.server.forget_requests()
        await group(cluster, "g", 6)
        found = (await cluster.until(placement(cluster, "g"))).seats()
        assert {seat.index for seat in found} == set(range(6))
        assert all(list(found.values()).count(node) <= 4 for node in ("n1", "n2"))
        assert (await cluster.group("g"))["status"]["phase"] == "Inqueue"
        assert cluster.server.requests()["patch", "podgroups"] == 1
        for seat, node in found.items():
            await create(cluster, "g", seat.index, node)
        await cluster.until(phase_is(cluster, "g", "Running"))
        await cluster.until(no_placement(cluster, "g"))
        requests = cluster.server.requests()
        assert (requests["create", "pods"], requests["patch", "pods"]) == (6, 0)
        assert requests["patch", "podgroups"] <= 3


async def ask(cluster, name, count, indices, generation):
    """Publish the seats of a gang that runs anew: these are to be placed."""
    wanted = asking(Seat("w", index) for index in indices)
    text = encode(msgspec.structs.replace(seats(name, count, 1), generation=generation, asked=wanted))
    body = {"metadata": {"annotations": {keys.SEATS: text, keys.PLACEMENT: None}}}
    await cluster.client.patch(POD_GROUPS, Key("default", name), body, PatchKind.MERGE)


def answered(cluster, name, generation):
    async def look():
        found = await placement(cluster, name)()
        return found if found is not None and found.generation == generation else None

    return look


async def test_a_running_gang_gets_an_answer_for_each_requested_seat_with_or_without_a_node(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(**PLACES):
        await group(cluster, "g", 2)
        await cluster.until(placement(cluster, "g"))
        for index in range(2):
            await create(cluster, "g", index, "n1")
        await cluster.until(no_placement(cluster, "g"))
        await ask(cluster, "g", 5, [2, 3, 4], 2)
        found = await cluster.until(answered(cluster, "g", 2))
        assert list(found.seats().values()) == ["n1", "n1"]
        assert set(found.answers()) >= {Seat("w", index) for index in (2, 3, 4)}
        for seat in found.seats():
            await create(cluster, "g", seat.index, "n1")
            started = {"status": {"phase": "Running"}}
            await cluster.client.patch(PODS, Key("default", f"g-w-{seat.index}"), started, PatchKind.MERGE, subresource="status")

        async def emptied():
            return (await placement(cluster, "g")()).nodes == {}

        await cluster.until(emptied)
        assert (await cluster.group("g"))["status"]["phase"] == "Running"
        await ask(cluster, "g", 5, [4], 3)
        assert (await cluster.until(answered(cluster, "g", 3))).seats() == {}


async def test_placed_seats_keep_their_capacity_across_a_scheduler_restart(cluster):
    await cluster.node("n1", cpu="4")
    async with cluster.scheduler(**PLACES):
        await group(cluster, "g", 3)
        await cluster.until(placement(cluster, "g"))
    async with cluster.scheduler(**PLACES):
        await group(cluster, "h", 2)
        await cluster.until(phase_is(cluster, "h", "Inqueue"))
        assert await no_placement(cluster, "h")()  # it does not fit: it goes the present way
        for index in range(2):
            await create(cluster, "h", index, "")
        await asyncio.sleep(1.0)
        assert set((await cluster.places("h-")).values()) == {None}
        await cluster.node("n2", cpu="4")
        await cluster.until(all_bound(cluster, "h-"))
        assert set((await cluster.places("h-")).values()) == {"n2"}


async def test_seats_are_placed_despite_concurrent_writes_to_the_podgroup(cluster):
    await cluster.node("n1", cpu="40")
    async with cluster.scheduler(**PLACES):
        for index in range(7):
            await group(cluster, f"g{index}", 2)
            body = {"metadata": {"labels": {"written": "meanwhile"}}}
            await cluster.client.patch(POD_GROUPS, Key("default", f"g{index}"), body, PatchKind.MERGE)
        for index in range(7):
            found = await cluster.until(placement(cluster, f"g{index}"))
            assert len(found.seats()) == 2


@pytest.mark.usefixtures("impatient")
async def test_seats_without_pods_are_withdrawn_and_their_capacity_is_released(cluster):
    await cluster.node("n1", cpu="4")
    async with cluster.scheduler(**PLACES):
        await group(cluster, "g", 4)
        assert (await cluster.until(placement(cluster, "g"))).withdrawn == ""

        await cluster.until(withdrawn(cluster, "Stalled"))
        await cluster.until(no_placement(cluster, "g"))  # nobody confirms
        await group(cluster, "h", 4)
        await cluster.until(placement(cluster, "h"))
        assert "SeatsWithdrawn" in await reasons(cluster)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["cordoned", "tainted", "gone"])
async def test_seats_are_withdrawn_if_their_node_is_cordoned_tainted_or_deleted(cluster, monkeypatch, how):
    monkeypatch.setattr(seat_keeper, "PATIENCE_SECONDS", 60.0)
    await cluster.node("n1", cpu="4")
    async with cluster.scheduler(**PLACES):
        await group(cluster, "g", 4)
        await cluster.until(placement(cluster, "g"))
        if how == "gone":
            await cluster.client.delete(NODES, Key("", "n1"))
        else:
            taint = [{"key": "k", "effect": "NoSchedule"}]
            spec = {"unschedulable": True} if how == "cordoned" else {"taints": taint}
            await cluster.client.patch(NODES, Key("", "n1"), {"spec": spec}, PatchKind.MERGE)
        await cluster.until(withdrawn(cluster, "NodeLost"))


async def test_malformed_seats_get_a_seatsignored_event_and_pods_are_bound_as_usual(cluster):
    await cluster.node("n1", cpu="4")
    async with cluster.scheduler(**PLACES):
        await group(cluster, "g", 2, text='{"tasks": 7}')

        async def told():
            return "SeatsIgnored" in await reasons(cluster)

        await cluster.until(told)
        await cluster.until(phase_is(cluster, "g", "Inqueue"))
        for index in range(2):
            await create(cluster, "g", index, "")
        await cluster.until(all_bound(cluster, "g-"))


async def test_seats_are_ignored_without_the_place_before_pods_flag(cluster):
    await cluster.node("n1", cpu="4")
    async with cluster.scheduler():
        await group(cluster, "g", 2)
        await cluster.until(phase_is(cluster, "g", "Inqueue"))
        assert await no_placement(cluster, "g")()
        for index in range(2):
            await create(cluster, "g", index, "")
        await cluster.until(all_bound(cluster, "g-"))
