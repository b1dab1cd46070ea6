"""Ports through which the client, informers and queues tell what they do; the process shell turns them into metrics.

They live here, declared by their users, so that this package needs to know nothing of metrics.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["SILENT", "Observer", "QueueObserver"]


class Observer(Protocol):
    """Told of requests and watches. All durations are seconds."""

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """A request ended; `status` is 0 when no answer came, `resource` is `plural.group[/subresource]`."""

    def events(self, resource: str, count: int) -> None:
        """`count` watch events of one kind were taken in."""

    def incident(self, resource: str, what: str) -> None:
        """Something that should be rare: `relist`, `reconnect`, `stall`, `undecodable`, `stale`, `handler_error`."""


class QueueObserver(Protocol):
    """Told of a work queue, by its name. All durations are seconds."""

    def depth(self, queue: str, waiting: int) -> None:
        """How many keys wait now."""

    def started(self, queue: str, waited: float) -> None:
        """Work on a key begins, after it waited so long."""

    def finished(self, queue: str, worked: float, failed: bool) -> None:
        """Work on a key ended; a failed key is tried again."""


class _Silent:
    """Both ports, doing nothing: the default."""

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None: ...

    def events(self, resource: str, count: int) -> None: ...

    def incident(self, resource: str, what: str) -> None: ...

    def depth(self, queue: str, waiting: int) -> None: ...

    def started(self, queue: str, waited: float) -> None: ...

    def finished(self, queue: str, worked: float, failed: bool) -> None: ...


SILENT = _Silent()
