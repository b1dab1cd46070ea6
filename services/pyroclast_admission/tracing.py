"""The trace context that a Job carries in an annotation, from its admission to its last pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pyroclast.rules.values import mapping
from pyroclast.runtime.traces import ANNOTATION, context_of
from pyroclast_admission.review import Answer


def trace_of(given: Mapping[str, Any]) -> str:
    """Return the trace context in the annotations of an object. The text is empty when the object has none."""
    annotation = _annotations(given).get(ANNOTATION)
    return context_of({ANNOTATION: annotation}) if isinstance(annotation, str) else ""


def with_trace(answer: Answer, given: Mapping[str, Any], context: Mapping[str, str]) -> Answer:
    """Return `answer` with a patch that adds `context` to the annotations of the object.

    The answer is unchanged when `context` is empty or the object has a trace context already.
    """
    if not context or not answer.verdict.allowed or not isinstance(given.get("metadata"), dict) or trace_of(given):
        return answer
    annotations = {**_annotations(given), **context}
    return replace(answer, patch=[*answer.patch, {"op": "add", "path": "/metadata/annotations", "value": annotations}])


def _annotations(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(given.get("metadata")).get("annotations"))
