"""Members of gangs that hold places they cannot use, and what becomes of them."""

import asyncio

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.records.pods import ContainerState, ContainerStatus, Terminated, Waiting
from pyroclast.api.types import EVENTS, NODES, PODS, Key
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.shell.gangs import GangKeeper, to_release
from tests.scenarios import objects
from tests.unit.scheduler.deciding import configured, decided
from tests.unit.scheduler.shell.test_service import all_bound

WAITS = ContainerStatus(state=ContainerState(waiting=Waiting(reason="ContainerCreating")))
RUNS = ContainerStatus()
ENDED = ContainerStatus(state=ContainerState(terminated=Terminated(exit_code=1)))
CRASHED = ContainerStatus(state=WAITS.state, last_state=ContainerState(terminated=Terminated(exit_code=1)), restart_count=1)


@pytest.mark.parametrize(
    ("pod", "is_released"),
    [
        ({}, True),
        ({"start": "2026-01-01T00:00:00Z"}, False),
        ({"is_owned": False}, False),
        ({"phase": "Running"}, False),
        ({"is_bound": False}, False),
    ],
    ids=["never started", "started", "bare", "running", "under way"],
)
def test_only_bound_pods_with_a_controller_that_never_started_are_released(pod, is_released):
    pod = {"start": None, "phase": "Pending"} | pod
    status = records.PodStatus(phase=pod.pop("phase"), start_time=pod.pop("start"))
    assert bool(to_release([task_with(status, **pod)])) is is_released


@pytest.mark.parametrize(
    ("init", "own", "is_released"),
    [
        ((), (), False),
        ((), (WAITS,), True),
        ((WAITS,), (WAITS, WAITS), True),
        ((), (WAITS, RUNS), False),
        ((RUNS,), (WAITS,), False),
        ((ENDED,), (WAITS,), False),
        ((), (CRASHED,), False),
    ],
)
def test_a_pod_is_released_only_if_its_container_statuses_show_that_none_ever_ran(init, own, is_released):
    status = records.PodStatus(start_time="2026-01-01T00:00:00Z", init_container_statuses=init, container_statuses=own)
    assert bool(to_release([task_with(status)])) is is_released


def task_with(status, *, is_owned=True, is_bound=True):
    cache = Cache()
    pod = objects.pod(["p", "g", "n0" if is_bound else "-", 1, "1Gi"])
    owner = records.meta.OwnerReference(api_version="v1", kind="Job", name="j", uid="u", controller=True)
    metadata = msgspec.structs.replace(pod.metadata, owner_references=(owner,) * is_owned)
    cache.pod_changed(None, msgspec.structs.replace(pod, metadata=metadata, status=status))
    if not is_bound:
        cache.node_changed(None, objects.node(["n0", 4, "8Gi"]))
        cache.pods.assume("t-p", "n0")
    return cache.tasks["t-p"]


@pytest.mark.parametrize(
    ("where", "has_started", "is_incomplete"), [("n0", False, True), ("n0", True, False), ("n1", False, False)]
)
def test_an_idle_gang_is_incomplete_if_the_node_of_an_unstarted_pod_is_deleted(where, has_started, is_incomplete):
    """Only what no node has taken up is the scheduler's to repair."""
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    nodes = {name: objects.node([name, 4, "8Gi"]) for name in ("n0", "n1")}
    for node in nodes.values():
        cache.node_changed(None, node)
    cache.group_changed(None, objects.pod_group(["g", "q", 2, {"phase": "Running"}]))
    status = records.PodStatus(start_time="2026-01-01T00:00:00Z" if has_started else None)
    for name, node in (("p-0", where), ("p-1", "n1")):
        pod = objects.pod([name, "g", node, 1, "1Gi"])
        cache.pod_changed(None, msgspec.structs.replace(pod, status=status))
    outcome = cycle(cache)
    assert outcome.incomplete == []
    cache.group_changed(None, msgspec.structs.replace(cache.groups.current("t/g"), status=outcome.statuses["t/g"]))
    for job in cycle(cache).unschedulable:
        cache.retries.add(job)
    assert cache.snapshot().jobs == []
    cache.node_changed(nodes["n0"], None)
    assert cycle(cache).incomplete == (["t/g"] if is_incomplete else [])


def cycle(cache):
    text = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]"
    return decided(cache, configured(text))[0]


def test_a_gang_is_released_once_it_was_incomplete_for_five_seconds():
    keeper = GangKeeper(None, Cache(), None)
    assert [keeper.take(["t/g"], now) for now in (0.0, 4.9, 5.0, 5.1)] == [[], [], ["t/g"], []]
    assert [keeper.take(incomplete, now) for incomplete, now in ((["t/g"], 6.0), ([], 7.0), (["t/g"], 8.0))] == [[], [], []]
    assert keeper.take(["t/g"], 12.9) == []


async def names(cluster):
    pods, _ = await cluster.client.list(PODS)
    return {pod["metadata"]["name"] for pod in pods}


async def released(cluster):
    events, _ = await cluster.client.list(EVENTS)
    return [event["message"] for event in events if event["reason"] == "GangReleased"]


@pytest.mark.usefixtures("impatient")
async def test_gang_pods_bound_to_a_deleted_node_are_deleted_with_a_gangreleased_event(cluster):
    await cluster.node("n1", cpu="8")
    await cluster.node("n2", cpu="8")
    await cluster.gang("g", 3)
    async with cluster.scheduler():
        await cluster.until(all_bound(cluster, "g-"))
        lost = [name for name, node in (await cluster.places()).items() if node == "n1"]
        await cluster.client.delete(NODES, Key("", "n1"))

        async def gone():
            return not await names(cluster) & set(lost)

        await cluster.until(gone)
        assert await released(cluster) == [f"{len(lost)} pods of the gang are bound to nodes that are gone: they are made anew"]


async def test_pods_get_a_disruptiontarget_condition_with_reason_gangreleased_before_their_deletion(cluster, monkeypatch):
    """By that their controller knows that nobody evicted them."""
    await cluster.gang("g", 2)
    await cluster.node("n")
    await cluster.bind("g-w-0", "n")
    cache, _ = await cluster.known("g-w-0", "n")
    cache.group_changed(None, msgspec.convert(await cluster.group("g"), records.PodGroup))
    key, delete, conditions = Key("default", "g-w-0"), cluster.client.delete, []

    async def deleted(*args, **kwargs):
        conditions.extend((await cluster.client.get(PODS, key))["status"]["conditions"])
        return await delete(*args, **kwargs)

    monkeypatch.setattr(cluster.client, "delete", deleted)
    await GangKeeper(cluster.client, cache, EventRecorder(cluster.client, "scheduler")).release("default/g")
    (told,) = [each for each in conditions if each["type"] == "DisruptionTarget"]
    assert (told["status"], told["reason"]) == ("True", "GangReleased")


@pytest.mark.usefixtures("impatient")
async def test_gang_pods_on_a_node_outside_the_node_selector_are_kept(cluster):
    await cluster.node("n1")
    await cluster.client.patch(NODES, Key("", "n1"), {"metadata": {"labels": {"pool": "batch"}}}, PatchKind.MERGE)
    await cluster.node("other")
    await cluster.gang("g", 2)
    await cluster.bind("g-w-0", "other")
    async with cluster.scheduler(**{"node-selector": "pool:batch"}):
        await cluster.until(all_bound(cluster, "g-"))
        await asyncio.sleep(3)
        assert await names(cluster) == {"g-w-0", "g-w-1"}
        assert await released(cluster) == []
