"""The event recorder: tells users what happened to their objects, without ever holding up the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from pyroclast.api.types import ResourceType
from pyroclast.kube.client import Client

__all__ = ["EventRecorder", "Reference"]


class _Meta(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class _Record(Protocol):
    @property
    def metadata(self) -> _Meta: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """Which object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @classmethod
    def of(cls, record: _Record, kind: ResourceType) -> Self:
        """The reference to a record of an informer."""
        meta = record.metadata
        return cls(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)


class EventRecorder:
    """Aggregates like client-go's correlator and sends in the background."""

    def __init__(self, client: Client, component: str) -> None:
        self.component = component

    def event(self, regarding: Mapping[str, Any] | Reference, type_: str, reason: str, message: str) -> None:
        """Record that something happened; `type_` is Normal or Warning. Never blocks, never raises."""
        raise NotImplementedError

    async def run(self) -> None:
        """Send what was recorded, until cancelled; what is left then is sent within two seconds or dropped."""
        raise NotImplementedError
