"""Pods whose node is lost: they are waited for, unless the administrator gives up on them after a while."""

import asyncio

import pytest

from pyroclast.api.types import COMMANDS, JOBS, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, task
from .test_controller import command

GRACE = 1


@pytest.fixture
def cluster(cluster):
    cluster.lost.add("n1")
    return cluster


async def node(cluster, name, ready):
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await cluster.client.create(NODES, body)
    status = {"conditions": [{"type": "Ready", "status": ready, "reason": "r", "message": "m"}]}
    await cluster.client.patch(NODES, Key("", name), {"status": status}, PatchKind.MERGE, subresource="status")


async def running_job(cluster, ready):
    if ready is not None:
        await node(cluster, "n1", ready)
    rows = task(replicas=2)
    rows["template"]["spec"] |= {"terminationGracePeriodSeconds": GRACE, "nodeName": "n1"}
    await cluster.running("j", rows)


@pytest.mark.parametrize("ready", [None, "Unknown", "False"])
async def test_pods_on_a_lost_node_are_replaced_after_give_up_lost_pods_after(cluster, ready):
    await cluster.kill()
    await cluster.start(give_up_lost_pods_after="1s")
    await running_job(cluster, ready)
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")

    async def made_again():
        pods = (await cluster.client.list(PODS, NS))[0]
        return len(pods) == 2 and not any("deletionTimestamp" in pod["metadata"] for pod in pods)

    await cluster.until(made_again)
    assert (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["retryCount"] == 1


async def test_pods_on_a_lost_node_are_kept_by_default_and_the_job_still_obeys_commands(cluster):
    await running_job(cluster, None)
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")
    await command(cluster, "AbortJob")
    await cluster.reaches("j", "Aborting")
    await command(cluster, "TerminateJob")
    await cluster.reaches("j", "Terminating")

    async def heard():
        return not (await cluster.client.list(COMMANDS, NS))[0]

    await cluster.until(heard)
    assert len(await cluster.names(PODS)) == 2


async def test_terminating_pods_on_a_ready_node_are_not_given_up(cluster):
    await cluster.kill()
    await cluster.start(give_up_lost_pods_after="1s")
    await running_job(cluster, "True")
    uids = {pod["metadata"]["uid"] for pod in (await cluster.client.list(PODS, NS))[0]}
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")
    await asyncio.sleep(GRACE + 2)
    assert {pod["metadata"]["uid"] for pod in (await cluster.client.list(PODS, NS))[0]} == uids
