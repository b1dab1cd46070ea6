"""What handles of Jobs and flows have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyroclast.api.types import Key

if TYPE_CHECKING:
    from pyroclast_client.asynchronous import AsyncClient

__all__ = ["Handle"]


class Handle:
    """An object in the cluster, known by namespace, name and uid. It pickles, and comes back in another session."""

    def __init__(self, client: AsyncClient, namespace: str, name: str, uid: str) -> None:
        self.client = client
        self.namespace = namespace
        self.name = name
        self.uid = uid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.client, self.namespace, self.name, self.uid)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)
