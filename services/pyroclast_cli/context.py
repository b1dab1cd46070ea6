"""What a command gets: the values of its flags, its positional arguments, the client of the API server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroclast_cli.flags import Value

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # at run time only commands that need a cluster load it

__all__ = ["Context", "Failure"]


class Failure(Exception):
    """A command cannot do what it was asked for; the message is for the user.

    Attributes:
        status: the exit status of a command that Volcano does not have; the others always end alike.
    """

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Context:
    """Flags by name, positional arguments, and the client where the command needs a cluster."""

    values: Mapping[str, Value]
    arguments: tuple[str, ...] = ()
    connection: Client | None = None

    @property
    def client(self) -> Client:
        """The client of the API server."""
        if self.connection is None:
            raise TypeError("a command without a cluster asked for a client")
        return self.connection

    def text(self, name: str) -> str:
        """The value of a text flag."""
        return str(self.values[name])

    def number(self, name: str) -> int:
        """The value of an integer flag."""
        return int(self.values[name])

    def is_set(self, name: str) -> bool:
        """The value of a boolean flag."""
        return bool(self.values[name])

    def say(self, line: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{line}\n")
