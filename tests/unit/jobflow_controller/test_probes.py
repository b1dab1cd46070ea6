"""Probes of pods: which pods are asked, which answers pass, and where nobody goes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyroclast.api.records import HttpGetProbe
from pyroclast_jobflow_controller.flow.probes import Reach
from pyroclast_jobflow_controller.settings import JobFlowSettings

from .world import World

FLOW: list[dict[str, Any]] = [
    {"name": "a", "retry": {"limit": 3, "backoff": "0s"}},
    {"name": "b"},
    {"name": "c", "dependsOn": {"targets": ["a", "b"], "probe": {"tcpSocketList": [{"taskName": "t", "port": 80}]}}},
]


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """A server that says `answer` to any request; its port."""

    served = asyncio.Event()

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()
            await writer.wait_closed()
        writer.transport.abort()
        served.set()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await served.wait()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ANSWERS: dict[str, tuple[bytes, str]] = {
    "yes": (OK, ""),
    "a redirection that is not followed": (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", ""),
    "a body that is not read": (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\nx", ""),
    "no": (b"HTTP/1.1 503 No\r\n\r\n", "answered 503"),
    "nothing": (b"", "Server disconnected"),
    "no HTTP": (b"hello\r\n\r\n", "Bad status line"),
    "too much": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "Got more than"),
}


@pytest.mark.parametrize(("answer", "words"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_http_probe_passes_on_status_200_or_302_and_reports_other_responses(answer: bytes, words: str) -> None:
    async with answering(answer) as port, Reach(10, local=True) as reach:
        problem = await reach.get("127.0.0.1", HttpGetProbe(port=port, path="/x"))
    assert words in problem
    assert bool(problem) == bool(words)


ODD: dict[str, str] = {
    "a path that looks like another host": "//elsewhere:80/",
    "a path that looks like a user": "@elsewhere/",
    "a path of more lines": "/\r\nX: y",
}


@pytest.mark.parametrize("path", ODD.values(), ids=ODD.keys())
async def test_http_probe_path_cannot_send_the_request_to_another_host(path: str) -> None:
    async with answering(OK) as port, Reach(10, local=True) as reach:
        assert await reach.get("127.0.0.1", HttpGetProbe(path=path, port=port)) == ""


NO_PODS = "127.0.0.1 127.1.2.3 ::1 169.254.169.254 fe80::1 fe80::1%eth0 ::ffff:127.0.0.1 0.0.0.0 :: ff02::1 localhost 1.2.3"


@pytest.mark.parametrize("ip", ["", *NO_PODS.split()])
async def test_probes_refuse_addresses_that_are_not_pod_addresses(ip: str) -> None:
    async with Reach(10) as reach:
        words = await reach.get(ip, HttpGetProbe(port=1))
        assert any(each in words for each in ("is a local address", "is not the address of a pod", "is no address"))
        assert await reach.connect(ip, 1) == words


@pytest.mark.parametrize("port", [-1, 70_000])
async def test_probes_report_a_problem_for_ports_out_of_range(port: int) -> None:
    async with Reach(10, local=True) as reach:
        assert await reach.connect("127.0.0.1", port)
        assert await reach.get("127.0.0.1", HttpGetProbe(port=port))


def pod(job: str, uid: str, ip: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    meta = {"name": f"{job}-t-0", "namespace": "n", "ownerReferences": [owner], "annotations": {"volcano.sh/task-spec": "t"}}
    return {"metadata": meta, "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to; none refuses."""
    addresses: list[str] = []

    async def connect(_: Reach, ip: str, port: int) -> str:
        addresses.append(ip)
        return "" if port == 80 else "nobody is there"

    monkeypatch.setattr(Reach, "connect", connect)
    return addresses


def uid_of(world: World, name: str) -> str:
    job = world.job(name)
    assert job is not None
    return str(job["metadata"]["uid"])


@pytest.mark.looptime
async def test_a_recreated_target_job_is_probed_again(asked: list[str]) -> None:
    world = World(random.Random(1))
    world.settings = JobFlowSettings(probe_period="1s")
    world.put_flow(*FLOW)
    async with world.controller():
        await asyncio.sleep(1)
        first = uid_of(world, "f-a")
        world.pods["f-a"] = [pod("f-a", first, "10.0.0.1")]
        world.enter("f-a", "Running", taskStatusCount={"t": {"phase": {"Running": 1}}})
        await asyncio.sleep(5)
        assert asked == ["10.0.0.1"]
        world.enter("f-a", "Failed")
        await asyncio.sleep(5)
        assert uid_of(world, "f-a") != first
        world.enter("f-a", "Running")
        world.enter("f-b", "Completed")
        await asyncio.sleep(5)
        assert (asked, world.job("f-c")) == (["10.0.0.1"], None)  # the pod that is left is of the first Job
        world.pods["f-a"] = [pod("f-a", uid_of(world, "f-a"), "10.0.0.2")]
        await asyncio.sleep(5)
        assert asked == ["10.0.0.1", "10.0.0.2"]
        assert world.job("f-c") is not None


@pytest.mark.looptime
@pytest.mark.parametrize("is_allowed", [False, True])
async def test_a_pod_in_the_host_network_is_probed_only_when_the_administrator_allows_it(
    asked: list[str], is_allowed: bool
) -> None:
    world = World(random.Random(1))
    world.settings = JobFlowSettings(probe_period="1s", probe_host_network=is_allowed)
    world.put_flow(*FLOW)
    async with world.controller():
        await asyncio.sleep(1)
        world.pods["f-a"] = [{**pod("f-a", uid_of(world, "f-a"), "10.0.0.1"), "spec": {"hostNetwork": True}}]
        world.enter("f-a", "Running", taskStatusCount={"t": {"phase": {"Running": 1}}})
        await asyncio.sleep(5)
        assert asked == (["10.0.0.1"] if is_allowed else [])


@pytest.mark.looptime
async def test_a_long_probe_message_is_truncated_in_the_jobflow_status(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(_: Reach, ip: str, port: int) -> str:
        return "x" * 100_000

    monkeypatch.setattr(Reach, "connect", connect)
    world = World(random.Random(1))
    world.put_flow(*FLOW)
    async with world.controller():
        await asyncio.sleep(1)
        world.pods["f-a"] = [pod("f-a", uid_of(world, "f-a"), "10.0.0.1")]
        world.enter("f-a", "Running")
        await asyncio.sleep(5)
    assert 300 < len(world.flow()["status"]["conditions"]["f-c"]["message"]) < 400
