"""The trace that a Job carries in an annotation, from admission to its last pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pyroclast.rules.values import mapping
from pyroclast.runtime.traces import ANNOTATION, context_of
from pyroclast_admission.review import Answer

__all__ = ["trace_of", "with_trace"]


def trace_of(given: Mapping[str, Any]) -> str:
    """The trace context that an object carries; empty when it has none."""
    annotation = _annotations(given).get(ANNOTATION)
    return context_of({ANNOTATION: annotation}) if isinstance(annotation, str) else ""


def with_trace(answer: Answer, given: Mapping[str, Any], context: Mapping[str, str]) -> Answer:
    """The answer that also lets the object carry `context`; the same one where there is none, or the object has one."""
    if not context or not answer.verdict.allowed or not isinstance(given.get("metadata"), dict) or trace_of(given):
        return answer
    annotations = {**_annotations(given), **context}
    return replace(answer, patch=[*answer.patch, {"op": "add", "path": "/metadata/annotations", "value": annotations}])


def _annotations(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(given.get("metadata")).get("annotations"))
