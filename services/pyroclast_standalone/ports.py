"""TCP ports on this machine for the processes of `pyroclast up`."""

from __future__ import annotations

import random
import socket
from typing import Final

RANGE: Final = range(20_000, 32_768)
"""Ports below Linux's range for outgoing connections, so that no such connection takes a port before a server listens on it."""

TRIES: Final = 100


def is_free(port: int) -> bool:
    """Return whether no process listens on `port` of 127.0.0.1."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens, and reserve it while this process runs.

    Raises:
        OSError: no free port was found.
    """
    for _ in range(TRIES):
        port = random.choice(RANGE)  # noqa: S311 - not a secret
        if _reserve(port):
            return port
    raise OSError(f"no free port found between {RANGE.start} and {RANGE.stop - 1}")


def _reserve(port: int) -> bool:
    """Reserve `port`. Return whether it was free. A server that allows address reuse may listen on a reserved port."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.detach()  # leaves the socket open until the process ends
    return True
