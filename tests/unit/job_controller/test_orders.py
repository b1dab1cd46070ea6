"""Commands outlive whoever carries them out: each is carried out exactly once, wherever the controller is killed."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from pyroclast.api.types import COMMANDS, JOBS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import ConnectionFailed, Forbidden, KubeError
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind
from tests.counts import IS_SOAK

from .cluster import task
from .memory_cluster import MemoryCluster, Replica, in_virtual_time, virtual_cluster
from .memory_server import MemoryClient
from .test_queue_orders import closed_family, made, make, order, ordered, state
from .watched import Watched

CHILD = Key("", "child")
BRIEF = 0.003
LONG = 30.0


def stopped_at(client: MemoryClient, step: int) -> asyncio.Event:
    """Let the client come to that step, and no further: before a request is sent, or when it was carried out and not answered."""
    write, get, reached, left = client._write, client.get, asyncio.Event(), [step]

    async def pause() -> None:
        left[0] -= 1
        if left[0] == -1:
            reached.set()
            await asyncio.Event().wait()

    async def writes(verb: str, kind: ResourceType, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        await pause()
        answer = await write(verb, kind, do)
        await pause()
        return answer

    async def gets(kind: ResourceType, key: Key, **more: Any) -> dict[str, Any]:
        await pause()
        answer = await get(kind, key, **more)
        await pause()
        return answer

    client._write, client.get = writes, gets  # type: ignore[method-assign]
    return reached


async def killed(cluster: MemoryCluster) -> None:
    await cluster.replica.kill()
    await cluster.start_controller()


async def handed_over_and_back(cluster: MemoryCluster) -> None:
    other = Replica(cluster.server, shards=1)
    await other.start()
    await cluster.replica.give(0)
    other.take(0)
    await asyncio.sleep(BRIEF)
    await other.give(0)
    cluster.replica.take(0)
    await other.kill()


def times(cluster: MemoryCluster) -> tuple[int, int]:
    """How often the Job was restarted, and how often its pods were let go."""
    return cluster.status("j")["retryCount"], cluster.status("j")["version"]


async def restarting(cluster: MemoryCluster) -> Any:
    watched = Watched(cluster)
    cluster.job("j", task("a", 2))
    nodes = asyncio.get_running_loop().create_task(watched.nodes())
    await watched.reaches("Running")
    watched.order("RestartJob")
    yield
    nodes.cancel()
    yield [each.rstrip("*") for each in watched.trace if each], *times(cluster)


async def aborting_and_resuming(cluster: MemoryCluster) -> Any:
    watched = Watched(cluster)
    cluster.job("j", task("a", 2))
    nodes = asyncio.get_running_loop().create_task(watched.nodes())
    await watched.reaches("Running")
    for action in ("AbortJob", "ResumeJob"):
        watched.order(action)
    yield
    nodes.cancel()
    trace = [each.rstrip("*") for each in watched.trace if each]
    yield [each for each in trace if each != "Aborted"], *times(cluster)  # it may be in that for a moment


async def aborting_half_made(cluster: MemoryCluster) -> Any:
    watched = Watched(cluster)
    cluster.job("j", task("a", 3))
    await asyncio.sleep(1)
    cluster.admit()
    watched.order("AbortJob")
    yield
    yield (cluster.phase("j"), cluster.status("j")["version"], len(cluster.pods()))


async def closing_and_opening(cluster: MemoryCluster) -> Any:
    states: list[str] = []

    def note(_: str, kind: str, item: dict[str, Any]) -> None:
        if kind == QUEUES.qualified:
            states.append(item["status"]["state"])

    await made(cluster, "child", "default", seconds=1)
    cluster.server.on_write = note
    for action in ("CloseQueue", "OpenQueue"):
        order(cluster, action, "child")
    yield
    yield [each for each, before in zip(states, ["", *states], strict=False) if each != before]


async def opening_with_the_parent(cluster: MemoryCluster) -> Any:
    closed_family(cluster)
    await asyncio.sleep(1)
    for name in ("child", "parent"):
        order(cluster, "OpenQueue", name)
    yield
    yield (state(cluster, "parent"), state(cluster, "child"))


SCENARIOS = {
    "a Job restarts": (restarting, (["Pending", "Running", "Restarting", "Pending", "Running"], 1, 1)),
    "a Job is aborted and resumed": (
        aborting_and_resuming,
        (["Pending", "Running", "Aborting", "Restarting", "Pending", "Running"], 1, 2),
    ),
    "a Job is aborted while its pods are made": (aborting_half_made, ("Aborted", 1, 0)),
    "a queue closes and opens": (closing_and_opening, ["Closed", "Open"]),
    "a queue opens after its parent": (opening_with_the_parent, ("Open", "Open")),
}


@pytest.mark.parametrize(("interrupted", "first"), [(killed, 0), (handed_over_and_back, 1)])
@pytest.mark.parametrize(("scenario", "want"), SCENARIOS.values(), ids=SCENARIOS.keys())
def test_command_is_executed_exactly_once_wherever_the_controller_is_stopped(scenario, want, interrupted, first) -> None:
    """At each step in one of the two ways; in the soak in both."""

    async def stopped(cluster: MemoryCluster, step: int) -> bool:
        going_on = scenario(cluster)
        await anext(going_on)
        reached = stopped_at(cluster.replica.client, step)
        try:
            async with asyncio.timeout(LONG):
                await reached.wait()
        except TimeoutError:
            was_stopped = False
        else:
            was_stopped = True
            await interrupted(cluster)
        await asyncio.sleep(LONG)
        assert await anext(going_on) == want, step
        assert not cluster.server.of(COMMANDS), step
        return was_stopped

    for step in count() if IS_SOAK else count(first, 2):
        if not in_virtual_time(lambda cluster, step=step: stopped(cluster, step)):
            assert step > 5
            return


def undeletable(cluster: MemoryCluster) -> None:
    """No Command can be deleted by the controller that runs now."""
    delete = cluster.replica.client.delete

    async def hangs(kind: ResourceType, key: Key, **more: Any) -> Any:
        if kind is COMMANDS:
            await asyncio.Event().wait()
        return await delete(kind, key, **more)

    cluster.replica.client.delete = hangs  # type: ignore[method-assign]


@virtual_cluster()
async def test_executed_job_command_that_was_not_deleted_is_not_repeated_after_a_restart(cluster: MemoryCluster) -> None:
    watched = Watched(cluster)
    cluster.job("j", task("a", 2))
    nodes = asyncio.get_running_loop().create_task(watched.nodes())
    await watched.reaches("Running")
    undeletable(cluster)
    watched.order("RestartJob")
    await asyncio.sleep(LONG)
    assert (cluster.phase("j"), len(cluster.server.of(COMMANDS))) == ("Running", 1)
    await killed(cluster)
    await asyncio.sleep(LONG)
    nodes.cancel()
    assert (cluster.phase("j"), times(cluster), len(cluster.server.of(COMMANDS))) == ("Running", (1, 1), 0)


@virtual_cluster()
async def test_executed_queue_command_that_was_not_deleted_is_not_repeated_after_a_restart(cluster: MemoryCluster) -> None:
    await made(cluster, "child", "default", seconds=1)
    undeletable(cluster)
    await ordered(cluster, "CloseQueue", "child", LONG)
    assert (state(cluster, "child"), len(cluster.server.of(COMMANDS))) == ("Closed", 1)
    cluster.server.patch(QUEUES, CHILD, {"status": {"state": "Open"}}, PatchKind.MERGE, "status")  # by an administrator
    await killed(cluster)
    await asyncio.sleep(LONG)
    assert (state(cluster, "child"), len(cluster.server.of(COMMANDS))) == ("Open", 0)


@virtual_cluster()
async def test_command_issued_during_pod_creation_is_executed_after_a_controller_restart(cluster: MemoryCluster) -> None:
    cluster.job("j", task("a", 20))
    await asyncio.sleep(1)
    create = cluster.replica.client.create

    async def slowly(kind: ResourceType, body: Any, **more: Any) -> Any:
        await asyncio.sleep(5 if kind is PODS else 0)
        return await create(kind, body, **more)

    cluster.replica.client.create = slowly  # type: ignore[method-assign]
    cluster.admit()
    await asyncio.sleep(1)
    Watched(cluster).order("AbortJob")
    await asyncio.sleep(1)
    assert len(cluster.server.of(COMMANDS)) == 1
    await killed(cluster)
    await asyncio.sleep(LONG)
    assert cluster.phase("j") == "Aborted"


@virtual_cluster()
async def test_open_queue_command_waiting_for_the_parent_queue_survives_a_controller_restart(cluster: MemoryCluster) -> None:
    closed_family(cluster)
    await ordered(cluster, "OpenQueue", "child", 5)
    await killed(cluster)
    await asyncio.sleep(2)
    await ordered(cluster, "OpenQueue", "parent", LONG)
    assert state(cluster, "child") == "Open"


def withdraw(cluster: MemoryCluster) -> None:
    for key in list(cluster.server.of(COMMANDS)):
        cluster.server.delete(COMMANDS, key)


@virtual_cluster()
async def test_open_queue_command_deleted_while_waiting_for_the_parent_queue_is_not_executed(cluster: MemoryCluster) -> None:
    closed_family(cluster)
    await ordered(cluster, "OpenQueue", "child", 5)
    withdraw(cluster)
    await ordered(cluster, "OpenQueue", "parent", LONG)
    assert (state(cluster, "parent"), state(cluster, "child")) == ("Open", "Closed")


@virtual_cluster()
async def test_command_deleted_while_all_writes_fail_is_not_executed(cluster: MemoryCluster) -> None:
    watched = Watched(cluster)
    cluster.job("j", task())
    await asyncio.sleep(1)
    cluster.admit()
    await asyncio.sleep(2)
    cluster.run_pods()
    await asyncio.sleep(3)
    cluster.replica.client.fault = lambda after: None if after else ConnectionFailed("refused", sent=False)
    watched.order("AbortJob")
    await asyncio.sleep(3)
    withdraw(cluster)
    await asyncio.sleep(1)
    cluster.replica.client.fault = lambda _: None
    await asyncio.sleep(LONG)
    assert cluster.phase("j") == "Running"


@virtual_cluster()
async def test_executed_command_that_a_stale_cache_still_lists_is_not_repeated_by_a_new_leader(cluster: MemoryCluster) -> None:
    other = Replica(cluster.server, shards=1)
    watch, is_late = other.client.watch, [False]

    async def late(kind: ResourceType, *where: Any, **more: Any) -> Any:
        async for lines in watch(kind, *where, **more):
            if kind is COMMANDS and is_late[0]:
                await asyncio.Event().wait()
            yield lines

    other.client.watch = late  # type: ignore[method-assign,assignment]
    await other.start()
    await made(cluster, "child", "default", seconds=1)
    await ordered(cluster, "CloseQueue", "child", 0)
    await asyncio.sleep(0.001)
    is_late[0] = True
    await asyncio.sleep(1)
    await ordered(cluster, "OpenQueue", "child", 1)
    assert not cluster.server.of(COMMANDS)
    assert len(other.shared.caches.commands) == 1
    await cluster.replica.give(0)
    other.take(0)
    await asyncio.sleep(LONG)
    await other.kill()
    assert state(cluster, "child") == "Open"


@virtual_cluster()
async def test_next_queue_command_is_executed_only_after_the_previous_one_could_be_deleted(cluster: MemoryCluster) -> None:
    await made(cluster, "child", "default", seconds=1)
    delete, is_forbidden = cluster.replica.client.delete, [True]

    async def refused(kind: ResourceType, key: Key, **more: Any) -> Any:
        if is_forbidden[0]:
            raise Forbidden(403, "Forbidden", "you may not")
        return await delete(kind, key, **more)

    cluster.replica.client.delete = refused  # type: ignore[method-assign]
    for action in ("CloseQueue", "OpenQueue"):
        await ordered(cluster, action, "child", LONG)
    assert (state(cluster, "child"), len(cluster.server.of(COMMANDS))) == ("Closed", 2)
    is_forbidden[0] = False
    await asyncio.sleep(LONG)
    assert (state(cluster, "child"), len(cluster.server.of(COMMANDS))) == ("Open", 0)


@virtual_cluster()
async def test_queue_command_costs_one_queue_patch_and_each_command_one_deletion(cluster: MemoryCluster) -> None:
    cluster.job("j", task())
    await made(cluster, "child", "default", seconds=5)
    cluster.server.writes.clear()
    order(cluster, "CloseQueue", "child")
    Watched(cluster).order("RestartPod")
    await asyncio.sleep(5)
    assert {what: times for what, times in cluster.server.writes.items() if what[1] != JOBS.qualified} == {
        ("patch", QUEUES.qualified): 1,
        ("delete", COMMANDS.qualified): 2,
    }


@virtual_cluster()
async def test_superseded_queue_command_is_reported_in_an_event(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(EventRecorder, "event", lambda _, about, *words: told.append(words[-1]))
    closed_family(cluster)
    await ordered(cluster, "OpenQueue", "child", 5)
    await ordered(cluster, "CloseQueue", "child", 1)
    await ordered(cluster, "OpenQueue", "parent", LONG)
    assert state(cluster, "child") == "Closed"
    assert "was given up for CloseQueue of command" in told[0]
    assert told[1].endswith("had no effect: the queue is Closed already")


@virtual_cluster()
async def test_forbidden_queue_command_is_retried_until_it_is_allowed_or_deleted(cluster: MemoryCluster) -> None:
    make(cluster, "child", "default")
    await made(cluster, "other", "default", seconds=1)

    def fault(after: bool) -> KubeError | None:
        return None if after else Forbidden(403, "Forbidden", "you may not")

    cluster.replica.client.fault = fault
    order(cluster, "CloseQueue", "other")
    (withdrawn,) = cluster.server.of(COMMANDS)
    await ordered(cluster, "CloseQueue", "child", LONG)
    assert len(cluster.server.of(COMMANDS)) == 2
    cluster.server.delete(COMMANDS, withdrawn)
    cluster.replica.client.fault = lambda _: None
    await asyncio.sleep(LONG)
    assert (state(cluster, "child"), state(cluster, "other")) == ("Closed", "Open")
