"""Events, mostly in the form of the core group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, invalid, required
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, named
from pyroclast_standalone.times import human_duration, parse_time, since

RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""Fields of core events, and their names in `events.k8s.io` events."""


def _check_place(document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
    """Check that an event is in the namespace of its object."""
    namespace, own = (document.get("involvedObject") or {}).get("namespace", ""), document["metadata"].get("namespace", "")
    if is_new:
        fits = bool(namespace) or own in {"default", "kube-system"}
    else:
        fits = own == namespace if namespace else own in {"", "default"}
    return [] if fits else [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _check_event(document: dict[str, Any]) -> list[FieldError]:
    if not document.get("eventTime"):
        return _check_place(document, is_new=False)
    controller = document.get("reportingComponent") or ""
    errors = [*_check_place(document, is_new=True), *named(controller, names.qualified_name, "reportingComponent")]
    return [*errors, *(required(field) for field in ("reportingInstance", "action", "reason") if not document.get(field))]


def _source(document: Mapping[str, Any]) -> str:
    source = document.get("source") or {}
    component = source.get("component") or document.get("reportingComponent") or ""
    instance = source.get("host") or document.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _since_micro(text: object, now: float) -> str:
    then = parse_time(text)
    return "<unknown>" if then is None else human_duration(now - then)


def _event_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    first = since(document.get("firstTimestamp"), now)
    if not document.get("firstTimestamp"):
        first = _since_micro(document.get("eventTime"), now)
    last = since(document.get("lastTimestamp"), now) if document.get("lastTimestamp") else first
    series = document.get("series")
    count = document.get("count") or 1
    if series:
        last, count = _since_micro(series.get("lastObservedTime"), now), series.get("count", 0)
    involved = document.get("involvedObject") or {}
    kind = involved.get("kind", "").lower()
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        _source(document),
        (document.get("message") or "").strip(),
        first,
        count,
        document["metadata"]["name"],
    ]


def _event_source(document: Mapping[str, Any]) -> str:
    return (document.get("source") or {}).get("component") or document.get("reportingComponent") or ""


EVENT: Final = Rules(
    check=_check_event,
    fields={
        **{
            f"involvedObject.{name}": read_field(f"involvedObject.{name}")
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": read_field("reason"),
        "reportingComponent": read_field("reportingComponent"),
        "source": _event_source,
        "type": read_field("type"),
    },
    cells=_event_cells,
)
REGARDING_EVENT: Final = Rules(
    cells=lambda document, now: _event_cells({**document, **{core: document.get(name) for core, name in RENAMED.items()}}, now)
)
