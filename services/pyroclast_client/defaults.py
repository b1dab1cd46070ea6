"""The client that functions of the package use: that of the innermost `with` block, else one of the kubeconfig."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroclast_client.synchronous import Client

__all__ = ["client", "enter", "leave"]

_lock = threading.Lock()
_entered: list[Client] = []
_usual: list[Client] = []


def enter(entered: Client) -> None:
    """Use this client, in all threads, until `leave`."""
    with _lock:
        _entered.append(entered)


def leave(left: Client) -> None:
    """Use the one before again."""
    with _lock:
        _entered.reverse()
        if left in _entered:
            _entered.remove(left)
        _entered.reverse()


def client() -> Client:
    """The client in use."""
    from pyroclast_client.synchronous import Client  # noqa: PLC0415 - it imports this module

    with _lock:
        if _entered:
            return _entered[-1]
        if not _usual:
            _usual.append(Client())
        return _usual[0]
