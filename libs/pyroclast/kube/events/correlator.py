"""Correlates events: counts repeated events, combines similar ones, and drops events beyond a rate.

The module is pure. Its rules are those of client-go, except that each reason has its own rate, so that a frequent reason does not
hide other reasons of the same object.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from pyroclast.api.records.meta import Meta
from pyroclast.api.types import EVENTS, Key, ResourceType
from pyroclast.kube.basics.retry import TokenBucket

# similar events have the same object, type and reason but different messages; more than this many are combined …
SIMILAR: Final = 10
SIMILAR_SECONDS: Final = 600.0  # … if the time between two of them is not longer than this
COMBINED: Final = "(combined from similar events): "
BURST: Final = 25  # events about one object and reason at once …
REFILL: Final = 1 / 300.0  # … and then one event in five minutes
REMEMBERED: Final = 4096  # entries of each cache; the least recently used are dropped
LONGEST_MESSAGE: Final = 1024  # bytes
LONGEST_NAME: Final = 253 - 17  # an object name, less the dot and 16 hexadecimal digits

V = TypeVar("V")


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Meta: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """The object of an event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = field(default="", compare=False)

    @classmethod
    def of(cls, record: _HasMetadata, kind: ResourceType) -> Self:
        """Return the reference to a record of an informer."""
        meta = record.metadata
        return cls(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @classmethod
    def to(cls, body: Mapping[str, Any]) -> Self:
        """Return the reference to an object as the API server returned it."""
        meta: Mapping[str, Any] = body.get("metadata") or {}
        names = (str(meta.get(name) or "") for name in ("namespace", "name", "uid", "resourceVersion"))
        return cls(str(body.get("apiVersion") or ""), str(body.get("kind") or ""), *names)

    def to_wire(self) -> dict[str, str]:
        """Return the reference in the form of `involvedObject`."""
        wire = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: value for name, value in wire.items() if value}


@dataclass(frozen=True, slots=True)
class Report:
    """Something that happened to an object.

    `type` is Normal or Warning; `labels` are the labels of the first Event of this kind.
    """

    regarding: Reference
    type: str
    reason: str
    message: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emission:
    """The Event to write. `is_new`: the Event is created; otherwise the count of an existing Event is increased."""

    key: Key
    body: dict[str, Any]
    is_new: bool

    @property
    def patch(self) -> dict[str, Any]:
        """The merge patch that increases the count."""
        return {name: self.body[name] for name in ("count", "lastTimestamp", "message")}


@dataclass(slots=True)
class _Similar:
    messages: set[str]
    last: float


@dataclass(slots=True)
class _Written:
    key: Key
    first: str
    count: int


class _Recent(OrderedDict[Any, V], Generic[V]):
    """A mapping that drops the least recently used entries."""

    def use(self, key: object, make: Callable[[], V]) -> V:
        value = self.get(key)
        if value is None:
            value = self[key] = make()
            if len(self) > REMEMBERED:
                self.popitem(last=False)
        else:
            self.move_to_end(key)
        return value


class Correlator:
    """Turns reports into Events of one component."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._similar: _Recent[_Similar] = _Recent()
        self._written: _Recent[_Written] = _Recent()
        self._buckets: _Recent[TokenBucket] = _Recent()
        self._last_stamp = 0

    def take(self, report: Report, now: float) -> Emission | None:
        """Return the Event to write for `report` at `now` (seconds since the epoch); None when the report exceeds the rate."""
        of = report.regarding
        # a flat tuple, because it is hashed about ten times; the resource version of the object is not part of it
        group = (of.api_version, of.kind, of.namespace, of.name, of.uid, report.type, report.reason)
        similar = self._similar.use(group, lambda: _Similar(set(), now))
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages.add(report.message)
        combined = len(similar.messages) > SIMILAR
        if combined:
            similar.messages.discard(report.message)
        text = COMBINED + report.message if combined else report.message
        stamp = _stamp(int(now))
        written = self._written.use(
            group if combined else (*group, report.message), lambda: _Written(self._name(report.regarding, now), stamp, 0)
        )
        written.count += 1
        if not self._buckets.use(group, lambda: TokenBucket(REFILL, BURST)).take(now):
            return None
        return Emission(written.key, self._body(report, written, text, stamp), is_new=written.count == 1)

    def _name(self, regarding: Reference, now: float) -> Key:
        self._last_stamp = max(int(now * 1e9), self._last_stamp + 1)
        return Key(regarding.namespace or "default", f"{regarding.name[:LONGEST_NAME]}.{self._last_stamp:x}")

    def _body(self, report: Report, written: _Written, message: str, stamp: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {"namespace": written.key.namespace, "name": written.key.name}
        if report.labels:
            metadata["labels"] = dict(report.labels)
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": metadata,
            "involvedObject": report.regarding.to_wire(),
            "type": report.type,
            "reason": report.reason,
            "message": _shorten(message),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": written.first,
            "lastTimestamp": stamp,
            "count": written.count,
        }


@functools.lru_cache(16)
def _stamp(now: int) -> str:
    """Return seconds since the epoch in the format of an Event."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shorten(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return message
    return encoded[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
