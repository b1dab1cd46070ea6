"""The common part of the handles of Jobs and flows, and the interface of their client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyroclast.api.types import Key
from pyroclast_client.compilation import Compiled, Surroundings
from pyroclast_client.results import Outcome
from pyroclast_client.sessions import Session


class Submitted(Protocol):
    """A Job that the client itself submitted, to read a store."""

    async def wait(self, *, fail_if_never: bool, check: bool) -> object:
        """Wait until the Job ends."""
        ...

    async def outcomes(self) -> Sequence[Outcome]:
        """Return the outcome of each call."""
        ...

    async def delete(self) -> None:
        """Delete the Job and its Secret."""
        ...


class Connection(Protocol):
    """The interface of a client that handles use."""

    @property
    def surroundings(self) -> Surroundings:
        """The namespace and defaults that the client adds to the calls of functions."""
        ...

    async def session(self) -> Session:
        """Return the open connection of this process and event loop."""
        ...

    async def submit_compiled(self, made: Compiled) -> Submitted:
        """Submit a compiled Job."""
        ...


class Handle:
    """An object in the cluster, identified by namespace, name and UID. The handle can be pickled and used in another process."""

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
        """The namespace and name of the object."""
        return Key(self.namespace, self.name)
