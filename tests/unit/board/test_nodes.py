"""The pages of nodes: what ends when, nodes that are not ready, and whose pods are on them."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, JOBS, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind

from .conftest import POD, Board, answering, fill, running_board

UNTIL = "2099-01-01T00:00:00Z"


async def ends(request: web.BaseRequest) -> web.StreamResponse:
    items = [{"namespace": "team", "name": "big", "until": UNTIL, "basis": "declared"}] if request.path == "/explain/ends" else []
    return web.json_response({"items": items})


async def place(board: Board, namespace: str, job: str, uid: str, node: str) -> None:
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": job, "uid": uid, "controller": True}
    meta = {"namespace": namespace, "name": f"{job}-on-{node}", "labels": {keys.JOB_NAME: job}, "ownerReferences": [owner]}
    await board.put(PODS, {"metadata": meta, "spec": {**POD, "nodeName": node}, "status": {"phase": "Running"}})


async def test_page_of_a_node_shows_its_pods_with_their_ends_and_taints() -> None:
    async with answering(ends) as url, running_board(scheduler_url=url, login="token") as board:
        uids = await fill_with_secret(board)
        everything, member = await board.token("root", everywhere=True), await board.token("member", "team")
        page = await board.until("/nodes/node-0", "big-worker-0", "other/hidden-job-on-node-0", "2099-01-01", token=everything)
        assert "end not known" in page, "nobody knows when the hidden Job ends"
        assert "dedicated=gpu:NoSchedule" in page
        assert f'href="/jobs/{uids["big"]}"' in page
        page = await board.get("/nodes/node-0", token=member)
        assert "hidden" not in page.replace("aria-hidden", "")
        assert "1 pods of others" in page
        await board.get("/nodes/no-such", 404, token=everything)
        page = await board.get("/nodes?resource=cpu&hole=3x4", token=member)
        assert "hidden" not in page.replace("aria-hidden", "")
        assert 'href="/nodes/node-0"' in page, "cells of the heat map are links"
        assert "3 nodes with 4 cpu free on each</b>: now" in page
        assert "3 nodes with 8 cpu free on each</b>: not known" in await board.get("/nodes?hole=3x8&resource=cpu", token=member)
        assert "is no number of nodes" in await board.get("/nodes?hole=much", 400, token=member)


async def fill_with_secret(board: Board) -> dict[str, str]:
    uids = await fill(board)
    await place(board, "other", "hidden-job", uids["secret"], "node-0")
    taints = {"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}
    await board.client.patch(NODES, Key("", "node-0"), taints, PatchKind.MERGE)
    return uids


async def test_node_that_is_not_ready_is_named_on_the_pages_of_its_jobs() -> None:
    async with running_board(login="token") as board:
        uids = await fill_with_secret(board)
        token = await board.token("member", "team")
        silent: dict[str, Any] = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2030-02-03T04:05:06Z"}
        status = {"status": {"conditions": [silent]}}
        await board.client.patch(NODES, Key("", "node-0"), status, PatchKind.MERGE, subresource="status")
        event = {"metadata": {"namespace": "default", "name": "flap"}, "reason": "NodeNotReady", "count": 3, "type": "Warning"}
        await board.client.create(EVENTS, {**event, "involvedObject": {"kind": "Node", "name": "node-0", "uid": "node-0"}})
        page = await board.until(f"/jobs/{uids['big']}", "1 of them on nodes that are not ready", "2030-02-03", token=token)
        assert 'href="/nodes/node-0"' in page
        page = await board.until("/nodes", "Nodes that take no pods", "NotReady", token=token)
        section = page.partition("Nodes that take no pods")[2].partition("</section>")[0]
        assert "team/big" in section
        assert "1 of others" in section
        page = await board.until("/nodes/node-0", "3 times by its Events", token=token)
        assert "No end is known: the scheduler gives no answer" in page
        assert "on nodes that are not ready" in await board.get("/jobs", token=token)
