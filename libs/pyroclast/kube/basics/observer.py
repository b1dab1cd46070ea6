"""The interfaces through which the client, informers and queues report their work; the runtime turns the reports into metrics.

Their users declare these interfaces, so that this package does not depend on metrics.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives reports of requests and watches. All durations are in seconds."""

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """A request ended. `status` is 0 when no response came; `resource` is `plural.group[/subresource]`."""

    def events(self, resource: str, count: int) -> None:
        """The client received `count` watch events of one resource."""

    def incident(self, resource: str, what: str) -> None:
        """A rare incident occurred: `relist`, `reconnect`, `stall`, `undecodable`, `stale` or `handler_error`."""


class QueueObserver(Protocol):
    """Receives reports of a work queue, by its name. All durations are in seconds."""

    def depth(self, queue: str, waiting: int) -> None:
        """`waiting` keys wait now."""

    def started(self, queue: str, waited: float) -> None:
        """Work on a key begins, after the key waited for `waited` seconds."""

    def finished(self, queue: str, worked: float, failed: bool) -> None:
        """Work on a key ended after `worked` seconds; a failed key is tried again."""


class _Silent:
    """Both interfaces without any effect: the default."""

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None: ...

    def events(self, resource: str, count: int) -> None: ...

    def incident(self, resource: str, what: str) -> None: ...

    def depth(self, queue: str, waiting: int) -> None: ...

    def started(self, queue: str, waited: float) -> None: ...

    def finished(self, queue: str, worked: float, failed: bool) -> None: ...


SILENT = _Silent()
