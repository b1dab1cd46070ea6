"""The input of a command: the values of its flags, its positional arguments, and the client of the API server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroclast_cli.flags import Value

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


class Failure(Exception):
    """The command failed. The message is printed for the user.

    Attributes:
        status: the exit status, for commands that Volcano does not have. Volcano's commands always exit with the same status.
    """

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Context:
    """The values of flags by name, the positional arguments, and the client if the command needs a cluster."""

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
        """Return the value of a text flag."""
        return str(self.values[name])

    def number(self, name: str) -> int:
        """Return the value of an integer flag."""
        return int(self.values[name])

    def is_set(self, name: str) -> bool:
        """Return the value of a boolean flag."""
        return bool(self.values[name])

    def say(self, line: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{line}\n")
