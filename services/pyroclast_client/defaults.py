"""The default client: that of the innermost `with` block, otherwise a client of the kubeconfig.

With `PYROCLAST=local` in the environment it is the client of a control plane on this machine. That control plane stops with the
process.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyroclast_client.jobs import Job
    from pyroclast_client.synchronous import Client


VARIABLE: Final = "PYROCLAST"
LOCAL: Final = "local"

_lock: Final = threading.Lock()
_usual: Final[list[Client]] = []


def client() -> Client:
    """Return the default client."""
    from pyroclast_client.synchronous import Client, entered  # noqa: PLC0415 - slow, and a module with a task imports this one

    if found := entered():
        return found
    with _lock:
        if _usual:
            return _usual[0]
        if os.environ.get(VARIABLE) != LOCAL:
            _usual.append(Client())
            return _usual[0]
    from pyroclast_client.planes import local  # noqa: PLC0415 - few programs run without a cluster

    plane = local().start()
    atexit.register(plane.stop)
    return plane


def job(name: str) -> Job[Any]:
    """Return the handle of a Job by `NAME` or `NAMESPACE/NAME`, from the default client."""
    return client().job(name)
