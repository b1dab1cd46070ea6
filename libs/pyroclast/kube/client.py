"""Requests to the API server: raw JSON in and out, retried where that is safe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Any, Self

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.config import ClusterConfig
from pyroclast.kube.deadline import Deadline
from pyroclast.kube.observer import SILENT, Observer

__all__ = ["Client", "Json", "PatchKind"]

Json = dict[str, Any]


class PatchKind(StrEnum):
    """How a patch body is meant; the values are the content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """An async context manager; all methods raise `pyroclast.kube.errors`."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        max_in_flight: int = 48,
        qps: float = 0.0,
        burst: int = 0,
        user_agent: str = "pyroclast",
        observer: Observer = SILENT,
    ) -> None:
        self.config = config
        self.observer = observer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError

    async def get(self, kind: ResourceType, key: Key, *, subresource: str = "", deadline: Deadline | None = None) -> Json:
        """Read one object."""
        raise NotImplementedError

    async def list(
        self, kind: ResourceType, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> tuple[list[Json], str]:
        """All objects (every page) and the resourceVersion of the list."""
        raise NotImplementedError

    async def create(
        self,
        kind: ResourceType,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        deadline: Deadline | None = None,
    ) -> Json:
        """Create an object, or post to a subresource of `name`."""
        raise NotImplementedError

    async def update(
        self, kind: ResourceType, body: Mapping[str, Any], *, subresource: str = "", deadline: Deadline | None = None
    ) -> Json:
        """Replace an object (PUT)."""
        raise NotImplementedError

    async def patch(
        self,
        kind: ResourceType,
        key: Key,
        body: Any,  # noqa: ANN401 - a JSON value
        how: PatchKind,
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        deadline: Deadline | None = None,
    ) -> Json:
        """Change an object in part."""
        raise NotImplementedError

    async def delete(
        self,
        kind: ResourceType,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        deadline: Deadline | None = None,
    ) -> Json:
        """Delete an object, if it still is the one of `uid` and `resource_version` where given."""
        raise NotImplementedError

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        deadline: Deadline | None = None,
    ) -> bytes:
        """Any request; the answer's body."""
        raise NotImplementedError

    def stream(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """The lines of a long answer (a watch, a log that is followed), as they come."""
        raise NotImplementedError
