from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyroclast.runtime.traces import ANNOTATION, PastSpan, SpanEvent, Traces, context_of, context_within

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_tracing_without_an_endpoint_adds_no_annotation_and_loads_no_opentelemetry() -> None:
    code = (
        "import sys; from pyroclast.runtime.traces import Traces; t = Traces('x')\n"
        "with t.span('a', b=1) as s: s.set_attribute('c', 2); assert t.annotations() == {}\n"
        "t.close(); print(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_invalid_trace_context_is_ignored() -> None:
    assert context_of({ANNOTATION: PARENT}) == PARENT
    for broken in ("", "x", PARENT[:-1], PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), PARENT.upper()):
        assert context_of({ANNOTATION: broken}) == ""
    assert context_of({}) == ""


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Traces, list[bytes]]]:
    """Traces, and the bodies that reached their collector; all that was traced is there afterwards."""
    received: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/traces ")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        received.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(collect, "127.0.0.1", 0)
    traces = Traces("prog", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    yield traces, received
    await asyncio.to_thread(traces.close)
    server.close()
    await server.wait_closed()


async def test_spans_of_one_object_are_one_trace_and_reach_the_collector() -> None:
    async with collecting() as (traces, received):
        with traces.span("admission", parent=PARENT, job="ns/a"):
            carried = traces.annotations()
            assert carried[ANNOTATION].startswith("00-0af7651916cd43dd8448eb211c80319c-")
            assert carried[ANNOTATION] != PARENT
        with traces.span("reconcile", parent=context_of(carried)) as span:
            span.set_attribute("phase", "Running")
            assert traces.annotations()[ANNOTATION][:36] == carried[ANNOTATION][:36]
        assert traces.annotations() == {}
    sent = b"".join(received)
    assert b"admission" in sent
    assert b"reconcile" in sent
    assert bytes.fromhex("0af7651916cd43dd8448eb211c80319c") in sent


def test_context_within_is_deterministic_and_keeps_the_trace_of_the_parent() -> None:
    own = context_within("uid flow.run")
    assert context_of({ANNOTATION: own}) == own
    assert context_within("uid flow.run") == own
    assert context_within("uid flow.run", PARENT).split("-")[1:3] == [PARENT.split("-")[1], own.split("-")[2]]
    assert context_within("uid flow.run", PARENT[:-1] + "0").endswith("-00"), "a trace that is not taken stays so"


async def test_past_spans_are_sent_with_their_ids_times_and_events() -> None:
    async with collecting() as (traces, received):
        event = SpanEvent("bound", 1001.25, {"pod": "train-0"})
        span = PastSpan("job.run", PARENT, "uid job.run", 1000.5, 2000.0, {"queue": "q"}, [event])
        first = PastSpan("flow.run", "", "uid flow.run", 1000.5, 2000.0)
        for _ in range(2):
            assert await asyncio.to_thread(traces.send, [span, first])
    assert received[0] == received[1], "sent again, it is the same span"
    _, trace, number, _ = context_within("uid flow.run").split("-")
    assert bytes.fromhex(trace) in received[0]
    assert bytes.fromhex(number) in received[0]
    assert b"job.run" in received[0]
    assert bytes.fromhex("0af7651916cd43dd8448eb211c80319c") in received[0]
    assert bytes.fromhex("b7ad6b7169203331") in received[0]
    assert int(1000.5e9).to_bytes(8, "little") in received[0]
    assert int(1001.25e9).to_bytes(8, "little") in received[0]
    assert b"train-0" in received[0]
    assert Traces("prog").send([span]), "without an endpoint nothing is sent"
