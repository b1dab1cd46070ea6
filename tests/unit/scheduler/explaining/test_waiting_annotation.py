"""A PodGroup that waits says so in its annotation; nothing is written while nothing changes."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import asynccontextmanager

import aiohttp

from pyroclast.api import keys
from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_standalone.processes import free_port
from tests.unit.scheduler.shell.test_service import all_bound, quiet


def said(group):
    text = group["metadata"].get("annotations", {}).get(keys.WAITING)
    return None if text is None else json.loads(text)


async def told(cluster, name="g"):
    """Why the gang waits, once all of its pods are known."""
    waiting = said(await cluster.group(name))
    return waiting if waiting and waiting["code"] != "PodsMissing" else None


async def listening(cluster, session):
    """Return when the service answers."""

    async def answers():
        try:
            async with session.get("/metrics") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    await cluster.until(answers)


@asynccontextmanager
async def asked_scheduler(cluster):
    """A scheduler that answers; gives the session to ask it with."""
    port = free_port()
    flags = {"enable-metrics": "true", "listen-address": f"127.0.0.1:{port}", "trust-local-clients": "true"}
    async with cluster.scheduler(**flags), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        await listening(cluster, session)
        yield session


async def test_a_waiting_gang_is_annotated_with_its_reason_until_it_runs_without_repeated_writes(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with cluster.scheduler():
        await cluster.gang("g", 3, cpu="2500m")

        waiting = await cluster.until(lambda: told(cluster))
        assert (waiting["code"], waiting["ahead"]) == ("TooFewNodes", 0)
        assert waiting["never"] is True
        assert waiting["resource"] == "cpu"
        await cluster.until(lambda: quiet(cluster))
        before = cluster.server.requests()["patch", "podgroups"]
        await asyncio.sleep(2.0)
        assert cluster.server.requests()["patch", "podgroups"] == before
        await cluster.node("n3")
        await cluster.until(all_bound(cluster, "g-"))

        async def silent():
            group = await cluster.group("g")
            return group["status"]["phase"] == "Running" and said(group) is None

        await cluster.until(silent)


async def test_an_estimated_start_is_written_to_the_waiting_annotation(cluster):
    await cluster.node("n1")
    for name in ("runs", "waits"):
        await cluster.gang(name, 3)
        declared = {"metadata": {"annotations": {keys.RUNNING_ESTIMATE: "10m"}}, "spec": {"minResources": {"cpu": "3"}}}
        await cluster.client.patch(POD_GROUPS, Key("default", name), declared, PatchKind.MERGE)
    async with cluster.scheduler():

        async def told():
            found = [said(await cluster.group(name)) for name in ("runs", "waits")]
            return next((each for each in found if each and "start" in each), None)

        assert (await cluster.until(told))["basis"].startswith("1 declared run time; ")


async def test_waiting_since_is_kept_across_a_scheduler_restart(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    for name in ("g", "h"):
        await cluster.gang(name, 3, cpu="2500m")

    async def second_in_line():
        for name in ("g", "h"):
            waiting = await told(cluster, name)
            if waiting and waiting["ahead"] == 1:
                return name, waiting
        return None

    async with cluster.scheduler():
        second, before = await cluster.until(second_in_line)
    await cluster.client.delete(POD_GROUPS, Key("default", "h" if second == "g" else "g"))
    await asyncio.sleep(1.1)

    async def first_in_line():
        waiting = await told(cluster, second)
        return waiting if waiting and waiting["ahead"] == 0 else None

    async with cluster.scheduler():
        assert (await cluster.until(first_in_line))["since"] == before["since"]


async def test_explain_endpoints_and_metrics_report_why_a_gang_waits(cluster):
    await cluster.node("n1")
    await cluster.node("n2")
    async with asked_scheduler(cluster) as session:
        await cluster.gang("g", 3, cpu="2500m")

        async def answered():
            async with session.get("/explain/jobs/default/g") as answer:
                found = await answer.json() if answer.status == 200 else {}
                return found if found.get("code") == "TooFewNodes" else None

        answer = await cluster.until(answered)
        assert answer["never"] is True
        assert next((each["resource"], each["asked"], each["largest"]) for each in answer["resources"]) == ("cpu", "2500m", "4")
        series = 'pyroclast_waiting_jobs{code="TooFewNodes",queue="default"} 1.0'

        async def counted():
            async with session.get("/metrics") as metrics:
                return series in await metrics.text()

        await cluster.until(counted)
        async with session.get("/explain/queues/default") as order:
            assert [(row["position"], row["code"]) for row in (await order.json())["items"]] == [(1, "TooFewNodes")]


async def test_explain_fits_predicts_the_start_of_a_new_job_and_writes_nothing(cluster):
    await cluster.node("n1")
    async with asked_scheduler(cluster) as session:
        await cluster.queue("small", capability={"cpu": "2"})

        async def ask(body):
            async with session.post(
                "/explain/fits", data=io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
            ) as answer:
                return answer.status, await answer.json() if answer.status != 404 else {}

        def job(replicas, queue="default"):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
            task = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
            return {"kind": "Job", "metadata": {"name": "new"}, "spec": {"queue": queue, "tasks": [task]}}

        async def known():
            status, answer = await ask(job(3, "small"))
            return answer if status == 200 else None

        answer = await cluster.until(known)
        await cluster.until(lambda: quiet(cluster))
        before = cluster.server.requests()
        answer = (await ask(job(3, "small")))[1]
        assert (answer["code"], answer["never"], answer["position"]["position"]) == ("AboveQueueLimit", True, 1)
        helping = {(each["change"], each["when"]) for each in answer["change"]}
        assert helping >= {("2 pods instead of 3", "now"), ("queue default", "now")}
        status, answer = await ask(job(3))
        assert (status, answer["code"], answer["sentence"]) == (200, None, "it would start at once")
        for bad in (b"{", b"[]", b'{"kind": "Pod"}', json.dumps(job(3, "nowhere")).encode(), json.dumps(job(10**9)).encode()):
            status, answer = await ask(bad)
            assert (status, bool(answer["message"])) == (400, True)
        assert (await ask(b'"' + b"x" * (2 << 20) + b'"'))[0] == 400
        after = cluster.server.requests()
        writes = ("create", "update", "patch", "delete")
        assert {what: count for what, count in (after - before).items() if what[0] in writes and what[1] != "leases"} == {}


async def test_an_error_in_an_explanation_does_not_stop_scheduling(cluster, monkeypatch):
    def fail(*_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(WaitingBook, "take", fail)
    await cluster.node("n1")
    async with cluster.scheduler():
        await cluster.gang("g", 3)
        await cluster.until(all_bound(cluster, "g-"))
