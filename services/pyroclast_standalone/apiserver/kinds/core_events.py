"""Events, in the form of the core group and in that of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.durations import human_duration, parse_time, since
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import immutable, named
from .rules import Rules

__all__ = ["EVENT", "REGARDING_EVENT"]

_CORE: Final = "io.k8s.api.core.v1."
_LONGEST_WORD, _LONGEST_NOTE = 128, 1024
_OLD_FIELDS: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = {
    **{field: field for field in ("involvedObject", "reason", "message", *_OLD_FIELDS, "type", "eventTime", "action", "related")},
    "reportingComponent": "reportingController",
    "reportingInstance": "reportingInstance",
}
"""What stays of an event, and how messages name it."""


def _check_place(document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
    """An event lies in the namespace of what it is about."""
    namespace, own = (document.get("involvedObject") or {}).get("namespace", ""), document["metadata"].get("namespace", "")
    if is_new:
        fits = bool(namespace) or own in {"default", "kube-system"}
    else:
        fits = own == namespace if namespace else own in {"", "default"}
    return [] if fits else [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _check_told(document: Mapping[str, Any], *, of_core: bool = True) -> list[FieldError]:
    if not document.get("eventTime"):
        return _check_place(document, is_new=False)
    errors = _check_place(document, is_new=True)
    controller, own = document.get("reportingComponent") or "", "reportingComponent" if of_core else "reportingController"
    errors += [*([] if controller else [required(own)]), *named(controller, names.label_key, own)]
    for field in ("reportingInstance", "action", "reason"):
        value = document.get(field) or ""
        if not value:
            errors.append(required(field))
        elif len(value) > _LONGEST_WORD:
            errors.append(invalid(field, "", f"can have at most {_LONGEST_WORD} characters"))
    if len(document.get("message") or "") > _LONGEST_NOTE:
        errors.append(invalid("message", "", f"can have at most {_LONGEST_NOTE} characters"))
    return errors


def _check_event(document: dict[str, Any]) -> list[FieldError]:
    return _check_told(document)


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
        document.get("message", "").strip(),
        first,
        count,
        document["metadata"]["name"],
    ]


def _event_source(document: Mapping[str, Any]) -> str:
    return (document.get("source") or {}).get("component") or document.get("reportingComponent") or ""


_EVENT_COLUMNS: Final = (
    Column("Last Seen", doc=f"{_CORE}Event.lastTimestamp"),
    Column("Type", doc=f"{_CORE}Event.type"),
    Column("Reason", doc=f"{_CORE}Event.reason"),
    Column("Object", doc=f"{_CORE}Event.involvedObject"),
    Column("Subobject", priority=1, doc=f"{_CORE}ObjectReference.fieldPath"),
    Column("Source", priority=1, doc=f"{_CORE}Event.source"),
    Column("Message", doc=f"{_CORE}Event.message"),
    Column("First Seen", priority=1, doc=f"{_CORE}Event.firstTimestamp"),
    Column("Count", priority=1, doc=f"{_CORE}Event.count"),
    Column("Name", priority=1, format="name", doc="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.name"),
)

EVENT: Final = Rules(
    metadata_checks=2,
    check=_check_event,
    check_update=lambda new, _old: _check_event(new),
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
    columns=_EVENT_COLUMNS,
    cells=_event_cells,
)


def _core_form(document: Mapping[str, Any]) -> dict[str, Any]:
    """An event of `events.k8s.io` in the words of the core group, as far as its row needs them."""
    return {
        **document,
        "involvedObject": document.get("regarding") or {},
        "message": document.get("note", ""),
        "reportingComponent": document.get("reportingController", ""),
        "source": document.get("deprecatedSource") or {},
        "count": document.get("deprecatedCount"),
        "firstTimestamp": document.get("deprecatedFirstTimestamp"),
        "lastTimestamp": document.get("deprecatedLastTimestamp"),
    }


def _check_series(document: Mapping[str, Any]) -> list[FieldError]:
    series = document.get("series")
    if series is None:
        return []
    errors = [] if series.get("count", 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    return errors if series.get("lastObservedTime") else [*errors, required("series.lastObservedTime")]


def _check_regarding(document: dict[str, Any]) -> list[FieldError]:
    event = _core_form(document)
    errors = [*_check_told(event, of_core=False), *_check_series(document)]
    if not document.get("eventTime"):
        errors.append(required("eventTime"))
    if document.get("type") not in {"Normal", "Warning"}:
        errors.append(invalid("type", "", f"has invalid value: {document.get('type', '')}"))
    return [*errors, *(invalid(field, "", "needs to be unset") for field in _OLD_FIELDS if event.get(field))]


def _update_regarding(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    mine, theirs = _core_form(new), _core_form(old)
    errors = _check_told(mine, of_core=False)
    if new.get("series") != old.get("series"):
        errors += _check_series(new)
    return [*errors, *(error for field, shown in _FIXED.items() for error in immutable(mine, theirs, field, shown))]


def _regarding_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return _event_cells(_core_form(document), now)


REGARDING_EVENT: Final = Rules(
    metadata_checks=2,
    check=_check_regarding,
    check_update=_update_regarding,
    fields={
        **{
            f"regarding.{name}": read_field(f"regarding.{name}")
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": read_field("reason"),
        "reportingController": read_field("reportingController"),
        "type": read_field("type"),
    },
    columns=_EVENT_COLUMNS,
    cells=_regarding_cells,
)
