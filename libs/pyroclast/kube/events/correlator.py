"""What becomes of events: repeated ones are counted, similar ones combined, floods cut.

Pure. The rules are client-go's, but that each reason has a budget of its own: one that comes often hides no other of its object.
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
from pyroclast.kube.basics.ratelimit import TokenBucket

__all__ = ["Correlator", "Emission", "Reference", "Report"]

SIMILAR: Final = 10  # events with the same object, type and reason but different messages, before they are combined …
SIMILAR_SECONDS: Final = 600.0  # … if they come within this time of each other
COMBINED: Final = "(combined from similar events): "
BURST: Final = 25  # events about one object at once …
REFILL: Final = 1 / 300.0  # … and then one in five minutes
REMEMBERED: Final = 4096  # of each sort; the least recently used are forgotten
LONGEST_MESSAGE: Final = 1024  # bytes
LONGEST_NAME: Final = 253 - 17  # an object name, less the dot and 16 hexadecimal digits

V = TypeVar("V")


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Meta: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """Which object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = field(default="", compare=False)

    @classmethod
    def of(cls, record: _HasMetadata, kind: ResourceType) -> Self:
        """The reference to a record of an informer."""
        meta = record.metadata
        return cls(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)

    @classmethod
    def to(cls, body: Mapping[str, Any]) -> Self:
        """The reference to an object as the API server answered it."""
        meta: Mapping[str, Any] = body.get("metadata") or {}
        names = (str(meta.get(name) or "") for name in ("namespace", "name", "uid", "resourceVersion"))
        return cls(str(body.get("apiVersion") or ""), str(body.get("kind") or ""), *names)

    def to_wire(self) -> dict[str, str]:
        """As `involvedObject`."""
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
    """Something happened to an object; `type` is Normal or Warning, `labels` are those of its first Event."""

    regarding: Reference
    type: str
    reason: str
    message: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emission:
    """What to write: the whole Event, and whether it is new or counts up one that exists."""

    key: Key
    body: dict[str, Any]
    is_new: bool

    @property
    def patch(self) -> dict[str, Any]:
        """What counting up changes, as a merge patch."""
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
    """A mapping that forgets what was not used for longest."""

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
    """Turns occurrences into Events of one component."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._similar: _Recent[_Similar] = _Recent()
        self._written: _Recent[_Written] = _Recent()
        self._buckets: _Recent[TokenBucket] = _Recent()
        self._last_stamp = 0

    def take(self, report: Report, now: float) -> Emission | None:
        """The Event to write for `report` at `now` (seconds since the epoch); None when there were too many such ones."""
        of = report.regarding
        # a flat tuple, as it is hashed some ten times: the version of the object is none of it
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
    """Seconds since the epoch as an event says them."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shorten(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= LONGEST_MESSAGE:
        return message
    return encoded[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
