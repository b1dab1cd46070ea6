"""The mark `closed-by-parent`: a child that was closed by hand stays closed, wherever the controller was killed before."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyroclast.api import keys
from pyroclast.api.types import QUEUES, Key, ResourceType

from .memory_cluster import MemoryCluster, virtual_cluster
from .test_queue_orders import make, order, state

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
