"""Orders to queues: several at once, and those that cannot be carried out yet, which keep nothing else from being done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, POD_GROUPS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, KubeError, ServerError
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, authorized
from .memory_cluster import MemoryCluster, virtual_cluster

GROUP = Key(NS, "g")


def make(cluster: MemoryCluster, name: str, parent: str, state: str = "Open") -> None:
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
    cluster.server.create(QUEUES, {**body, "spec": {"weight": 1, "parent": parent}, "status": {"state": state}})


def closed_family(cluster: MemoryCluster) -> None:
    """Queue `child` below queue `parent`, both closed."""
    make(cluster, "parent", "root", "Closed")
    make(cluster, "child", "parent", "Closed")


def order(cluster: MemoryCluster, action: str, name: str) -> None:
    uid = cluster.server.of(QUEUES)[Key("", name)]["metadata"]["uid"]
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": name, "uid": uid}
    cluster.server.create(COMMANDS, authorized(action, target, generateName="c"))


async def ordered(cluster: MemoryCluster, action: str, name: str, seconds: float) -> None:
    """Order, and give the controller that time."""
    order(cluster, action, name)
    await asyncio.sleep(seconds)


async def made(cluster: MemoryCluster, name: str, parent: str, state: str = "Open", *, seconds: float) -> None:
    make(cluster, name, parent, state)
    await asyncio.sleep(seconds)


def state(cluster: MemoryCluster, name: str) -> Any:
    return cluster.server.of(QUEUES)[Key("", name)]["status"]["state"]


def hold(cluster: MemoryCluster, queue: str) -> None:
    """A PodGroup in that queue."""
    body = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "g", "namespace": NS}}
    cluster.server.create(POD_GROUPS, {**body, "spec": {"minMember": 1, "queue": queue}, "status": {"phase": "Running"}})


@virtual_cluster()
async def test_closing_queue_still_closes_after_a_refused_open_queue_command(cluster: MemoryCluster) -> None:
    hold(cluster, "child")
    make(cluster, "parent", "root", "Closed")
    make(cluster, "child", "parent", "Closing")
    await ordered(cluster, "OpenQueue", "child", 10)
    cluster.server.delete(POD_GROUPS, GROUP)
    await asyncio.sleep(10)
    assert state(cluster, "child") == "Closed"


@virtual_cluster()
async def test_podgroup_changes_do_not_use_up_the_retries_of_an_open_queue_command(cluster: MemoryCluster) -> None:
    closed_family(cluster)
    hold(cluster, "child")
    await asyncio.sleep(1)
    order(cluster, "OpenQueue", "child")
    for number in range(40):
        await asyncio.sleep(0.1)
        cluster.server.patch(POD_GROUPS, GROUP, {"status": {"phase": ("Pending", "Running")[number % 2]}}, PatchKind.MERGE)
    await ordered(cluster, "OpenQueue", "parent", 30)
    assert state(cluster, "child") == "Open"


@virtual_cluster()
async def test_child_queue_closed_by_command_stays_closed_after_a_partly_failed_opening(cluster: MemoryCluster) -> None:
    make(cluster, "parent", "root")
    make(cluster, "child", "parent")
    await ordered(cluster, "CloseQueue", "parent", 5)
    failures = [ServerError(500, "InternalError", "try again")] * 4

    def fault(_: bool) -> KubeError | None:
        child = cluster.server.of(QUEUES)[Key("", "child")]
        marked = child["metadata"]["annotations"]["volcano.sh/closed-by-parent"] == "true"
        return failures.pop() if failures and marked and child["status"]["state"] == "Open" else None

    cluster.replica.client.fault = fault
    await ordered(cluster, "OpenQueue", "parent", 5)
    assert state(cluster, "child") == "Open"
    cluster.replica.client.fault = lambda _: None
    await ordered(cluster, "CloseQueue", "child", 30)
    assert state(cluster, "child") == "Closed"


@pytest.mark.parametrize(("action", "want"), [("SyncQueue", "Open"), ("CloseQueue", "Closed")])
@virtual_cluster()
async def test_waiting_open_queue_command_is_superseded_by_close_queue_but_not_by_sync_queue(
    cluster: MemoryCluster, action: str, want: str
) -> None:
    closed_family(cluster)
    await ordered(cluster, "OpenQueue", "child", 10)
    await ordered(cluster, action, "child", 1)
    await ordered(cluster, "OpenQueue", "parent", 30)
    assert state(cluster, "child") == want


@virtual_cluster()
async def test_open_queue_command_is_dropped_with_an_event_after_too_many_refusals(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(EventRecorder, "event", lambda _, about, *words: told.append((about.name, *words)))
    closed_family(cluster)
    await ordered(cluster, "OpenQueue", "child", 160)
    assert not told
    await asyncio.sleep(10)
    why = "Failed to open queue child because its parent queue parent is closing or closed. Open the parent queue first."
    assert told == [("child", "Warning", "OpenQueue", f"OpenQueue queue failed for {why}")]


@virtual_cluster()
async def test_queue_command_is_executed_although_a_write_hits_a_conflict(cluster: MemoryCluster) -> None:
    await made(cluster, "q", "root", seconds=1)
    conflicts = [Conflict(409, "Conflict", "the object has been modified")]
    cluster.replica.client.fault = lambda after: conflicts.pop() if conflicts and not after else None
    await ordered(cluster, "CloseQueue", "q", 10)
    assert not conflicts
    assert state(cluster, "q") == "Closed"


@virtual_cluster()
async def test_open_queue_command_is_retried_until_the_parent_queue_exists(cluster: MemoryCluster) -> None:
    make(cluster, "c", "p")
    await ordered(cluster, "CloseQueue", "c", 5)
    assert state(cluster, "c") == "Closed"
    await ordered(cluster, "OpenQueue", "c", 5)
    assert state(cluster, "c") == "Closed"
    await made(cluster, "p", "root", seconds=30)
    assert state(cluster, "c") == "Open"


@virtual_cluster()
async def test_parent_queue_that_is_created_closed_closes_its_child(cluster: MemoryCluster) -> None:
    await made(cluster, "c", "p", seconds=5)
    await made(cluster, "p", "root", "Closed", seconds=5)
    assert state(cluster, "c") == "Closed"
    assert cluster.server.of(QUEUES)[Key("", "c")]["metadata"]["annotations"][keys.CLOSED_BY_PARENT] == "true"


@virtual_cluster()
async def test_last_command_in_the_queue_status_is_kept_when_the_parent_closes_the_queue(
    cluster: MemoryCluster,
) -> None:
    make(cluster, "p", "root")
    make(cluster, "c", "p")
    for action in ("CloseQueue", "OpenQueue"):
        order(cluster, action, "c")
        await asyncio.sleep(5)
    status = cluster.server.of(QUEUES)[Key("", "c")]["status"]
    assert status["lastCommand"]
    await ordered(cluster, "CloseQueue", "p", 5)
    assert cluster.server.of(QUEUES)[Key("", "c")]["status"] == {**status, "state": "Closed"}


@pytest.mark.parametrize(
    ("orders", "want"),
    [
        (("CloseQueue", "OpenQueue"), "Open"),
        (("CloseQueue", "OpenQueue", "CloseQueue"), "Closed"),
        (("CloseQueue", "CloseQueue"), "Closed"),
        (("OpenQueue", "CloseQueue"), "Closed"),
    ],
)
@virtual_cluster()
async def test_last_of_several_queue_commands_decides_the_state(
    cluster: MemoryCluster, orders: tuple[str, ...], want: str
) -> None:
    await made(cluster, "q", "root", seconds=1)
    for action in orders:
        await ordered(cluster, action, "q", 2)
    assert state(cluster, "q") == want


CHILD = Key("", "child")


def mark(cluster: MemoryCluster) -> str | None:
    notes = cluster.server.of(QUEUES)[CHILD]["metadata"].get("annotations") or {}
    return notes.get(keys.CLOSED_BY_PARENT)


async def killed_at(cluster: MemoryCluster, is_meant: Callable[[str, dict[str, Any]], bool]) -> None:
    """Let the controller come to the first write of a queue that is meant, and start another instead of it."""
    patch, reached = cluster.replica.client.patch, asyncio.Event()

    async def stopped(kind: ResourceType, key: Key, body: Any, *how: Any, **more: Any) -> Any:
        if kind is QUEUES and is_meant(key.name, body):
            reached.set()
            await asyncio.Event().wait()
        return await patch(kind, key, body, *how, **more)

    cluster.replica.client.patch = stopped  # type: ignore[method-assign]
    await reached.wait()
    await restarted(cluster)


async def restarted(cluster: MemoryCluster) -> None:
    await cluster.replica.kill()
    await cluster.start_controller()
    await asyncio.sleep(10)


def marks(value: str) -> Callable[[str, dict[str, Any]], bool]:
    def is_meant(name: str, body: dict[str, Any]) -> bool:
        return name == "child" and (body["metadata"].get("annotations") or {}).get(keys.CLOSED_BY_PARENT) == value

    return is_meant


def enters(queue: str, *states: str) -> Callable[[str, dict[str, Any]], bool]:
    def is_meant(name: str, body: dict[str, Any]) -> bool:
        return name == queue and (body.get("status") or {}).get("state") in states

    return is_meant


SHUT = ("Closing", "Closed")
KILLS = {
    "while the parent closes, before its state": (("CloseQueue",), enters("parent", *SHUT)),
    "while the parent closes, before the mark": (("CloseQueue",), marks("true")),
    "while the parent closes, before the state of the child": (("CloseQueue",), enters("child", *SHUT)),
    "while the parent opens, before its state": (("CloseQueue", "OpenQueue"), enters("parent", "Open")),
    "while the parent opens, before the state of the child": (("CloseQueue", "OpenQueue"), enters("child", "Open")),
    "while the parent opens, before the mark": (("CloseQueue", "OpenQueue"), marks("false")),
}


async def then_restarted(cluster: MemoryCluster) -> None:
    await restarted(cluster)


async def then_the_parent_closed_and_opened(cluster: MemoryCluster) -> None:
    for action in ("CloseQueue", "OpenQueue"):
        order(cluster, action, "parent")
        await asyncio.sleep(10)


@pytest.mark.parametrize("then", [then_restarted, then_the_parent_closed_and_opened])
@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
@virtual_cluster()
async def test_child_queue_closed_by_command_stays_closed_wherever_the_controller_was_killed(
    cluster: MemoryCluster, kill, then
) -> None:
    orders, is_meant = kill
    make(cluster, "parent", "root")
    make(cluster, "child", "parent")
    await asyncio.sleep(1)
    for action in orders[:-1]:
        order(cluster, action, "parent")
        await asyncio.sleep(5)
    order(cluster, orders[-1], "parent")
    await killed_at(cluster, is_meant)
    order(cluster, "OpenQueue", "parent")
    await asyncio.sleep(10)
    assert (state(cluster, "parent"), state(cluster, "child")) == ("Open", "Open")
    order(cluster, "CloseQueue", "child")
    await asyncio.sleep(10)
    await then(cluster)
    assert (state(cluster, "parent"), state(cluster, "child")) == ("Open", "Closed")
    assert mark(cluster) != "true"


@virtual_cluster()
async def test_closed_by_parent_annotation_of_an_open_child_queue_is_reset_after_a_restart(cluster: MemoryCluster) -> None:
    make(cluster, "parent", "root")
    make(cluster, "child", "parent")
    cluster.server.of(QUEUES)[CHILD]["metadata"]["annotations"] = {keys.CLOSED_BY_PARENT: "true"}
    await restarted(cluster)
    assert (state(cluster, "child"), mark(cluster)) == ("Open", "false")


@virtual_cluster()
async def test_child_queue_that_is_annotated_but_still_open_closes_after_a_controller_restart(cluster: MemoryCluster) -> None:
    make(cluster, "parent", "root")
    make(cluster, "child", "parent")
    await asyncio.sleep(1)
    order(cluster, "CloseQueue", "parent")
    await killed_at(cluster, enters("child", *SHUT))
    assert (state(cluster, "child"), mark(cluster)) == ("Closed", "true")


@virtual_cluster()
async def test_closing_and_opening_a_parent_queue_costs_three_writes_on_it_and_four_on_its_child(cluster: MemoryCluster) -> None:
    make(cluster, "parent", "root")
    make(cluster, "child", "parent")
    await asyncio.sleep(1)
    seen: list[tuple[str, Any]] = []

    def note(_: str, kind: str, item: dict[str, Any]) -> None:
        if kind == QUEUES.qualified:
            notes = item["metadata"].get("annotations") or {}
            seen.append((item["metadata"]["name"], (item["status"]["state"], notes.get(keys.CLOSED_BY_PARENT))))

    cluster.server.on_write = note
    for action in ("CloseQueue", "OpenQueue"):
        order(cluster, action, "parent")
        await asyncio.sleep(10)
    assert [what for name, what in seen if name == "parent"] == [("Closed", None), ("Open", None), ("Open", "false")]
    assert [what for name, what in seen if name == "child"] == [
        ("Open", "true"),
        ("Closed", "true"),
        ("Open", "true"),
        ("Open", "false"),
    ]
