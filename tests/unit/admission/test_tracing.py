"""A Job carries its trace from admission on."""

from __future__ import annotations

from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.traces import ANNOTATION
from pyroclast_admission.review import Answer
from pyroclast_admission.tracing import trace_of, with_trace

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = {ANNOTATION: TRACE}


def test_a_job_gets_its_trace() -> None:
    given = {"metadata": {"annotations": {"a": "b"}}}
    assert with_trace(Answer(), given, CONTEXT).patch == [
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b", ANNOTATION: TRACE}}
    ]
    assert trace_of({"metadata": {"annotations": CONTEXT}}) == TRACE


def test_a_job_that_has_one_keeps_it_and_nothing_is_added_without_a_tracer() -> None:
    assert with_trace(Answer(), {"metadata": {"annotations": CONTEXT}}, CONTEXT).patch == []
    assert with_trace(Answer(), {"metadata": {}}, {}).patch == []
    assert with_trace(Answer(), {}, CONTEXT).patch == []
    assert with_trace(Answer(Verdict("no")), {"metadata": {}}, CONTEXT).patch == []
    assert trace_of({"metadata": {"annotations": {ANNOTATION: 5}}}) == ""
