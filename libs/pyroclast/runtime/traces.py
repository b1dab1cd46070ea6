"""Traces: spans of a service's work, and a trace context that an object carries in an annotation.

OpenTelemetry is imported only when an endpoint is set. Without an endpoint, spans cost nothing and contexts are passed on
unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyroclast.api import keys

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.trace import Tracer


ANNOTATION: Final = keys.TRACEPARENT
"""The annotation with the trace context of an object, as a W3C traceparent."""
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


SEND_MILLISECONDS: Final = 1000
"""Milliseconds between two exports of spans; a killed process loses the spans of at most this time."""


def context_of(annotations: Mapping[str, str]) -> str:
    """Return the trace context of an object; empty when it has none or an invalid one."""
    value = annotations.get(ANNOTATION, "")
    return value if _TRACEPARENT.fullmatch(value) else ""


def context_within(identity: str, parent: str = "") -> str:
    """Return the context for the children of a `PastSpan`, which is known before that span has ended.

    Without a parent, the span is the first of a trace, whose id also follows from the identity.
    """
    trace, span = _ids(identity, parent)
    return f"00-{trace:032x}-{span:016x}-{parent.rpartition('-')[2] or '01'}"


def flow_identity(uid: str) -> str:
    """Return the identity of the span of a flow, which is the parent of the spans of its Jobs."""
    return f"{uid} flow.run"


class _Span(Protocol):
    def set_attribute(self, key: str, value: str | float | bool) -> object: ...


class _NoSpan:
    def set_attribute(self, key: str, value: str | float | bool) -> None: ...


_NO_SPAN: Final = _NoSpan()


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event inside a span. `at`: seconds since the epoch."""

    name: str
    at: float
    attributes: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastSpan:
    """A finished span, from recorded times in seconds since the epoch.

    `parent`: a context in the form of `context_of`, empty for the first span of a trace. `identity` determines the id of the
    span, so that a span that is sent again is the same span.
    """

    name: str
    parent: str
    identity: str
    begin: float
    end: float
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()


class Traces:
    """The tracer of a service. Without an endpoint it does nothing."""

    def __init__(self, service: str, endpoint: str = "") -> None:
        self._provider: TracerProvider | None = None
        self._exporter: OTLPSpanExporter | None = None
        self._tracer: Tracer | None = None
        if endpoint:
            self._exporter = _exporter(endpoint)
            self._provider = _provider(service, _exporter(endpoint))
            self._tracer = self._provider.get_tracer("pyroclast")

    @property
    def are_taken(self) -> bool:
        """Whether trace spans are exported."""
        return self._tracer is not None

    @contextlib.contextmanager
    def span(self, name: str, parent: str = "", **attributes: Any) -> Iterator[_Span]:  # noqa: ANN401 - values of attributes
        """Trace the block as a span. `parent`: a context in the form of `context_of`; empty for the current span, if there is
        one.
        """
        if self._tracer is None:
            yield _NO_SPAN
            return
        with self._tracer.start_as_current_span(name, context=_context(parent), attributes=attributes) as span:
            yield span

    def annotations(self) -> dict[str, str]:
        """Return the annotation that stores the context of the current span on an object; empty outside of a span."""
        if self._tracer is None:
            return {}
        from opentelemetry.trace import get_current_span  # noqa: PLC0415 - loaded when there is a tracer

        context = get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        return {ANNOTATION: f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"}

    def send(self, spans: Sequence[PastSpan]) -> bool:
        """Send finished spans; return whether the collector accepted them. Blocks until the response, so do not call it in an
        event loop.
        """
        if self._exporter is None or self._provider is None:
            return True
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - loaded when there is a tracer

        resource = self._provider.resource
        return self._exporter.export([_finished(span, resource) for span in spans]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Send the remaining spans; takes some seconds when the collector is unreachable."""
        if self._exporter is not None:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
            self._exporter = None
        if self._provider is not None:
            self._provider.shutdown()
            self._provider = None


def _exporter(endpoint: str) -> OTLPSpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    url = endpoint.rstrip("/")
    if not url.endswith("/v1/traces"):
        url += "/v1/traces"
    return OTLPSpanExporter(endpoint=url, timeout=5)


def _provider(service: str, exporter: OTLPSpanExporter) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=SEND_MILLISECONDS))
    return provider


def _finished(span: PastSpan, resource: Resource) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags  # noqa: PLC0415

    trace, number = _ids(span.identity, span.parent)
    _, _, parent, flags = (span.parent or "---01").split("-")
    taken = TraceFlags(int(flags, 16))
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace, number, is_remote=False, trace_flags=taken),
        parent=SpanContext(trace, int(parent, 16), is_remote=True, trace_flags=taken) if parent else None,
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(each.name, dict(each.attributes), int(each.at * 1e9)) for each in span.events],
        kind=SpanKind.INTERNAL,
        start_time=int(span.begin * 1e9),
        end_time=int(span.end * 1e9),
    )


def _ids(identity: str, parent: str) -> tuple[int, int]:
    """Return the ids of the trace and of the span."""
    digest = hashlib.sha256(identity.encode()).digest()
    trace = int(parent.split("-")[1], 16) if parent else int.from_bytes(digest[8:24], "big") or 1
    return trace, int.from_bytes(digest[:8], "big") or 1


def _context(parent: str) -> Context | None:
    if not parent:
        return None
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context  # noqa: PLC0415

    _, trace, span, flags = parent.split("-")
    return set_span_in_context(
        NonRecordingSpan(SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))))
    )
