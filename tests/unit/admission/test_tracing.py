"""A Job carries its trace from admission on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.traces import ANNOTATION, Traces
from pyroclast_admission.engine import Engine, Overload, ReviewMetrics, trace_of, with_trace
from pyroclast_admission.handlers import WEBHOOKS
from pyroclast_admission.review import Answer
from tests.bench.admission_server import everybody, known, reader
from tests.unit.admission.clients import patch_of, review
from tests.unit.rules.builders import job

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = {ANNOTATION: TRACE}


def test_with_trace_adds_the_trace_context_to_the_job_annotations() -> None:
    given = {"metadata": {"annotations": {"a": "b"}}}
    assert with_trace(Answer(), given, CONTEXT).patch == [
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b", ANNOTATION: TRACE}}
    ]
    assert trace_of({"metadata": {"annotations": CONTEXT}}) == TRACE


def test_with_trace_adds_nothing_to_a_traced_or_denied_job_or_without_a_context() -> None:
    assert with_trace(Answer(), {"metadata": {"annotations": CONTEXT}}, CONTEXT).patch == []
    assert with_trace(Answer(), {"metadata": {}}, {}).patch == []
    assert with_trace(Answer(), {}, CONTEXT).patch == []
    assert with_trace(Answer(Verdict("no")), {"metadata": {}}, CONTEXT).patch == []
    assert trace_of({"metadata": {"annotations": {ANNOTATION: 5}}}) == ""


class Spans(Traces):
    """A tracer that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__("test")
        self.names: list[tuple[str, str]] = []

    @property
    def are_taken(self) -> bool:
        return True

    @contextlib.contextmanager
    def span(self, name: str, parent: str = "", **attributes: Any) -> Iterator[Any]:
        self.names.append((name, parent))
        yield None

    def annotations(self) -> dict[str, str]:
        return dict(CONTEXT)


async def test_only_reviews_of_a_job_creation_are_spans_and_the_first_starts_the_trace() -> None:
    state, spans = known(), Spans()
    metrics = ReviewMetrics(CollectorRegistry())
    engine = Engine(
        WEBHOOKS, lambda: state, reader(state), authorize=everybody, overload=Overload(), metrics=metrics, traces=spans
    )
    new, carrying = job(), {**job(), "metadata": {"name": "job-1", "annotations": CONTEXT}}
    first = await engine.reply("/jobs/mutate", orjson.dumps(review("/jobs/mutate", object=new)))
    assert patch_of(orjson.loads(first.body))[-1] == {"op": "add", "path": "/metadata/annotations", "value": CONTEXT}
    second = await engine.reply("/jobs/validate", orjson.dumps(review("/jobs/validate", object=carrying)))
    assert orjson.loads(second.body)["response"] == {"uid": "u-1", "allowed": True}
    change = review("/jobs/validate", object=carrying, oldObject=carrying)
    change["request"]["operation"] = "UPDATE"
    await engine.reply("/jobs/validate", orjson.dumps(change))
    assert spans.names == [("admission.mutate", ""), ("admission.validate", TRACE)], "the trace has the creation alone"
    engine.close()
