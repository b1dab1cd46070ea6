"""A change of leader while nodes are being locked: the next leader goes on with the same target and the same nodes."""

import json
from contextlib import AsyncExitStack

import pytest

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, PODS, Key

CONFIGURATION = """
actions: "enqueue, elect, allocate, backfill, reserve"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: reservation
    arguments: {nodeOrder: ORDER, locksPerCycle: PACE}
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
NODES = 5
WANTED = 3


async def reservation(cluster):
    group = await cluster.group("large")
    return json.loads(group["metadata"].get("annotations", {}).get(keys.RESERVATION, "{}"))


async def locks(cluster):
    """The locked nodes, and since when."""
    return {each["node"]: each["since"] for each in (await reservation(cluster)).get("locks", ())}


@pytest.mark.parametrize(
    ("order", "pace", "most"), [("capacity", "1", WANTED), ("idle", "2", WANTED), ("capacity", "all", NODES)]
)
async def test_a_new_leader_continues_the_reservation_with_the_same_target_and_locks(cluster, tmp_path, order, pace, most):
    (tmp_path / "conf").write_text(CONFIGURATION.replace("ORDER", order).replace("PACE", pace))
    flags = {"scheduler-conf": str(tmp_path / "conf"), "leader-elect": "true", "leader-elect-retry-period": "200ms"}
    for i in range(NODES):
        await cluster.node(f"n{i}", cpu="4")

    async def running(prefix):
        return [name for name, node in (await cluster.places(prefix)).items() if node]

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(cluster.scheduler(**flags, **{"leader-elect-identity": "first"}))
        for i in range(NODES):
            await cluster.gang(f"small{i}", 1, cpu="4")

        async def is_full():
            return len(await running("small")) == NODES

        await cluster.until(is_full)
        await stack.enter_async_context(cluster.scheduler(**flags, **{"leader-elect-identity": "second"}))
        await cluster.gang("large", WANTED, cpu="4")
        await cluster.until(lambda: locks(cluster))  # else a later one of the same second could be the target
        for i in range(NODES):
            await cluster.gang(f"later{i}", 1, cpu="4")
        await first.aclose()
        before, since = await locks(cluster), (await reservation(cluster))["since"]

        async def all_locked():
            return len(await locks(cluster)) == most

        await cluster.until(all_locked)
        after = await locks(cluster)
        assert before.items() <= after.items(), "no lock was lost, or begun anew"
        assert (await reservation(cluster))["since"] == since, "the target is the same, since the same time"
        for name, node in (await cluster.places("small")).items():
            if node in after:
                await cluster.client.delete(PODS, Key("default", name), grace_seconds=0)

        async def has_started():
            return len(await running("large")) == WANTED

        await cluster.until(has_started)
        assert set((await cluster.places("large")).values()) <= after.keys()

        async def is_over():
            return not await locks(cluster)

        await cluster.until(is_over)
        events, _ = await cluster.client.list(EVENTS)
        chosen = [
            event for event in events if event["reason"] == "ReservationTarget" and event["involvedObject"]["name"] == "large"
        ]
        assert len(chosen) == 1, "by the first leader; the second knows"
