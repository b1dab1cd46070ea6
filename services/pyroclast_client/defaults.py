"""The client that functions of the package use: that of the innermost `with` block, else one of the kubeconfig.

With `PYROCLAST=local` in the environment it is one of a control plane on this machine, which ends with the process.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyroclast_client.synchronous import Client

__all__ = ["client", "enter", "leave"]

VARIABLE: Final = "PYROCLAST"
LOCAL: Final = "local"

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
        if _usual:
            return _usual[0]
    if os.environ.get(VARIABLE) != LOCAL:
        with _lock:
            _usual.append(Client())
            return _usual[0]
    from pyroclast_client.planes import local  # noqa: PLC0415 - few programs run without a cluster

    plane = local().start()
    atexit.register(plane.stop)
    return plane
