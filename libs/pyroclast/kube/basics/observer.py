"""Receives the reports of the client, informers and queues about their work; the runtime turns the reports into metrics.

The class is here, so that this package does not depend on metrics.
"""

from __future__ import annotations


class Observer:
    """Ignores all reports; a subclass uses those that it needs. All durations are in seconds."""

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """A request ended. `status` is 0 when no response came; `resource` is `plural.group[/subresource]`."""

    def events(self, resource: str, count: int) -> None:
        """The client received `count` watch events of one resource."""

    def incident(self, resource: str, what: str) -> None:
        """A rare incident occurred: `relist`, `reconnect`, `stall`, `undecodable`, `stale` or `handler_error`."""

    def depth(self, queue: str, waiting: int) -> None:
        """`waiting` keys wait now in the work queue of that name."""

    def started(self, queue: str, waited: float) -> None:
        """Work on a key begins, after the key waited for `waited` seconds."""

    def finished(self, queue: str, worked: float, failed: bool) -> None:
        """Work on a key ended after `worked` seconds; a failed key is tried again."""


SILENT = Observer()
