"""The synchronous client: the methods of the asynchronous client without `await`."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Any, Final, Self, TypeVar, cast, overload

from pyroclast_client.asynchronous import AsyncClient
from pyroclast_client.checking import Fit
from pyroclast_client.documents import Submittable
from pyroclast_client.flow_compilation import FlowCall
from pyroclast_client.flow_handles import AsyncFlow, Flow
from pyroclast_client.handles import AsyncJob
from pyroclast_client.jobs import Job
from pyroclast_client.loops import run
from pyroclast_client.options import Call, SweepCall
from pyroclast_client.sweeps import AsyncSweep, Sweep

R = TypeVar("R")

_lock: Final = threading.Lock()
_entered: Final[list[Client]] = []
_clients: Final[weakref.WeakSet[AsyncClient]] = weakref.WeakSet()


def _close_all(owner: int = os.getpid()) -> None:
    """Close the connections that a program left open. A forked child leaves those of its parent alone."""
    for client in list(_clients) if os.getpid() == owner else ():
        run(client.close())


atexit.register(_close_all)


def entered() -> Client | None:
    """Return the client of the innermost `with` block in any thread. None outside of such blocks."""
    with _lock:
        return _entered[-1] if _entered else None


class Client:
    """A client of one cluster with the credentials of one user. See `AsyncClient` for the arguments.

    In a `with` block it is the default client, which `task.run`, `pc.job` and the other functions of the package use. The Jobs
    continue after the block.
    """

    def __init__(
        self,
        context: str | None = None,
        namespace: str | None = None,
        queue: str | None = None,
        image: str | None = None,
        store: str | None = None,
        *,
        kubeconfig: str | None = None,
    ) -> None:
        self.asynchronous = AsyncClient(context, namespace, queue, image, store, kubeconfig=kubeconfig)
        _clients.add(self.asynchronous)

    def __repr__(self) -> str:
        return repr(self.asynchronous).replace("AsyncClient", "Client")

    def __enter__(self) -> Self:
        with _lock:
            _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _entered.reverse()
            if self in _entered:
                _entered.remove(self)
            _entered.reverse()
        self.close()

    @property
    def namespace(self) -> str:
        """The namespace of submitted objects."""
        return self.asynchronous.namespace

    def close(self) -> None:
        """Close the connection. The submitted Jobs continue."""
        run(self.asynchronous.close())

    @overload
    def submit(
        self, anything: Call[R], *, name: str | None = None, dry_run: bool = False, cancel_on_exit: bool = False
    ) -> Job[R]: ...
    @overload
    def submit(self, anything: SweepCall[R], *, name: str | None = None, dry_run: bool = False) -> Sweep[R]: ...
    @overload
    def submit(self, anything: FlowCall[R], *, name: str | None = None, dry_run: bool = False) -> Flow[R]: ...
    @overload
    def submit(
        self, anything: Submittable, *, name: str | None = None, dry_run: bool = False, cancel_on_exit: bool = False
    ) -> Job[Any]: ...
    def submit(
        self, anything: Any, *, name: str | None = None, dry_run: bool = False, cancel_on_exit: bool = False
    ) -> Job[Any] | Sweep[Any] | Flow[Any]:
        """Submit a call of a task, a model, a dict, the path of a manifest, or the text of a manifest.

        See `AsyncClient.submit`.
        """
        if isinstance(anything, FlowCall):
            run(self.asynchronous.look_around())
            anything = self.asynchronous.compiled_flow(anything)
        made = cast(
            "AsyncJob[Any] | AsyncSweep[Any] | AsyncFlow[Any]",
            run(self.asynchronous.submit(anything, name=name, dry_run=dry_run)),
        )
        if isinstance(made, AsyncFlow):
            return Flow(made)
        return Sweep(made) if isinstance(made, AsyncSweep) else Job(made, cancel_on_exit=cancel_on_exit)

    def job(self, name: str) -> Job[Any]:
        """Return the handle of a Job by `NAME` or `NAMESPACE/NAME`."""
        return Job(run(self.asynchronous.job(name)))

    def jobs(
        self, *, queue: str | None = None, phase: str | None = None, mine: bool = False, executor: str | None = None
    ) -> list[Job[Any]]:
        """Return the Jobs of the namespace, newest first. See `AsyncClient.jobs`."""
        return [Job(each) for each in run(self.asynchronous.jobs(queue=queue, phase=phase, mine=mine, executor=executor))]

    def fits(self, anything: object) -> Fit:
        """Return whether a Job would start now, and the reason if it would not. Nothing is created.

        In a condition, the result is true if the Job would start.
        """
        return run(self.asynchronous.fits(anything))

    def flow(self, name: str) -> Flow[Any]:
        """Return the handle of a JobFlow by `NAME` or `NAMESPACE/NAME`."""
        return Flow(run(self.asynchronous.flow(name)))

    def queues(self) -> list[dict[str, Any]]:
        """Return the Queue objects."""
        return run(self.asynchronous.queues())
