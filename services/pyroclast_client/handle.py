"""What handles of Jobs and flows have in common, and what they need of the client that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyroclast.api.types import Key
from pyroclast_client.compilation import Compiled, Surroundings
from pyroclast_client.results import Outcome
from pyroclast_client.sessions import Session

__all__ = ["Connection", "Handle", "Submitted"]


class Submitted(Protocol):
    """A Job of the client's own."""

    async def wait(self, *, fail_if_never: bool, check: bool) -> object:
        """Wait for its end."""
        ...

    async def outcomes(self) -> Sequence[Outcome]:
        """What became of each call."""
        ...

    async def delete(self) -> None:
        """Delete it with all that belongs to it."""
        ...


class Connection(Protocol):
    """A client, as its handles see it."""

    @property
    def surroundings(self) -> Surroundings:
        """What it adds to the calls of functions."""
        ...

    async def session(self) -> Session:
        """The open connection of this process and loop."""
        ...

    async def submit_compiled(self, made: Compiled) -> Submitted:
        """Submit a Job."""
        ...


class Handle:
    """An object in the cluster, known by namespace, name and uid. It pickles, and comes back in another session."""

    def __init__(self, client: Connection, namespace: str, name: str, uid: str) -> None:
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
