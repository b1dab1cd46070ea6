"""A collector of traces that takes OTLP over HTTP and keeps what it is sent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it came: ids in hexadecimal, times in seconds since the epoch."""

    trace: str
    id: str
    parent: str
    name: str
    begin: float
    end: float
    attributes: dict[str, object]
    events: int


class Collector:
    """What came in, and where it listens."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[Span] = []

    def of_trace(self, trace: str) -> list[Span]:
        """The spans of a trace, in the order of their begin."""
        return sorted((span for span in self.spans if span.trace == trace), key=lambda span: (span.begin, span.end))

    def take(self, body: bytes) -> None:
        """Take up what a service sends."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                    begin, end = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    self.spans.append(Span(*ids, span.name, begin, end, values, len(span.events)))


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
