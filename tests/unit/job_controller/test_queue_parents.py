"""Queues whose parent is missing: they work, what needs the parent is tried again, and they follow it once it is there.

And what comes of several orders at once.
"""

import asyncio

import pytest

from pyroclast.api.types import COMMANDS, QUEUES, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, running_cluster
from .memory_cluster import in_virtual_time


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        yield running


async def queue(cluster, name, **spec):
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1, **spec}}
    await cluster.client.create(QUEUES, body)


async def order(cluster, action, name):
    uid = (await cluster.client.get(QUEUES, Key("", name)))["metadata"]["uid"]
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": name, "uid": uid}
    meta = {"generateName": "c-", "namespace": NS}
    body = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": meta, "action": action, "target": target}
    await cluster.client.create(COMMANDS, body)


def is_in(cluster, name, state):
    async def there():
        found = await cluster.client.get(QUEUES, Key("", name))
        return (found.get("status") or {}).get("state") == state

    return cluster.until(there)


async def test_opening_is_tried_again_until_the_parent_is_there(cluster):
    await queue(cluster, "c", parent="p")
    await is_in(cluster, "c", "Open")
    await order(cluster, "CloseQueue", "c")
    await is_in(cluster, "c", "Closed")
    await order(cluster, "OpenQueue", "c")
    await queue(cluster, "p")
    await is_in(cluster, "p", "Open")
    await is_in(cluster, "c", "Open")


async def test_a_parent_that_comes_closed_closes_its_child(cluster):
    await queue(cluster, "c", parent="p")
    await is_in(cluster, "c", "Open")
    await cluster.kill()
    await queue(cluster, "p")
    closed = {"status": {"state": "Closed"}}
    await cluster.client.patch(QUEUES, Key("", "p"), closed, PatchKind.MERGE, subresource="status")
    await cluster.start()
    await is_in(cluster, "c", "Closed")
    assert (await cluster.client.get(QUEUES, Key("", "c")))["metadata"]["annotations"]["volcano.sh/closed-by-parent"] == "true"


async def test_the_status_names_the_command_that_was_carried_out_last_whatever_the_parent_does_after(cluster):
    await queue(cluster, "p")
    await queue(cluster, "c", parent="p")
    await is_in(cluster, "c", "Open")
    for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        await order(cluster, action, "c")
        await is_in(cluster, "c", state)
    status = (await cluster.client.get(QUEUES, Key("", "c")))["status"]
    assert status["lastCommand"]
    await order(cluster, "CloseQueue", "p")
    await is_in(cluster, "c", "Closed")
    assert (await cluster.client.get(QUEUES, Key("", "c")))["status"] == {**status, "state": "Closed"}


@pytest.mark.parametrize(
    ("orders", "want"),
    [
        (("CloseQueue", "OpenQueue"), "Open"),
        (("CloseQueue", "OpenQueue", "CloseQueue"), "Closed"),
        (("CloseQueue", "CloseQueue"), "Closed"),
        (("OpenQueue", "CloseQueue"), "Closed"),
    ],
)
def test_of_several_orders_the_last_word_holds(orders, want):
    async def given_at_once(cluster):
        server = cluster.server
        body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {"parent": "root"}}
        uid = server.create(QUEUES, body)["metadata"]["uid"]
        await cluster.until(lambda: server.of(QUEUES)[Key("", "q")].get("status"))
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "q", "uid": uid}
        for number, action in enumerate(orders):
            meta = {"name": f"c{number}", "namespace": NS}
            command = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": meta}
            server.create(COMMANDS, {**command, "action": action, "target": target})
        await asyncio.sleep(2)
        return server.of(QUEUES)[Key("", "q")]["status"]["state"]

    assert in_virtual_time(given_at_once) == want
