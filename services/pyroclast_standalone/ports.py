"""TCP ports of this machine for what `pyroclast up` starts."""

from __future__ import annotations

import random
import socket
from typing import Final

__all__ = ["free_port", "is_free"]

RANGE: Final = range(20_000, 32_768)
"""Below the ports that Linux gives to outgoing connections, so that none of these takes one before it is listened on."""

TRIES: Final = 100

_reserved: Final[list[socket.socket]] = []


def is_free(port: int) -> bool:
    """Whether nobody listens on `port` of 127.0.0.1."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, and that nobody else is given while this process lives.

    Raises:
        OSError: none was found.
    """
    for _ in range(TRIES):
        port = random.choice(RANGE)  # noqa: S311 - not a secret
        if _reserve(port):
            return port
    raise OSError(f"no free port found between {RANGE.start} and {RANGE.stop - 1}")


def _reserve(port: int) -> bool:
    """Keep others from drawing `port`; whether it was free. Whoever lets addresses be reused, as servers do, may listen there."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reserved.append(holder)
    return True
