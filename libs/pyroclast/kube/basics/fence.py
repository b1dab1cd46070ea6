"""Fencing: whoever works under a Lease begins no write once that Lease may have been lost.

The fence travels with the context of the task that leads, and with every task that it starts, so no call names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Fence", "closed_because", "fenced"]


class Fence(Protocol):
    """Says whether writes may begin."""

    def closed_because(self) -> str | None:
        """Why no write may begin now; None when it may."""


_current: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Hold back every write of this block, and of the tasks that it starts, while `fence` is closed."""
    token = _current.set(fence)
    try:
        yield
    finally:
        _current.reset(token)


def closed_because() -> str | None:
    """Why the task that runs now may not begin a write; None when it may."""
    fence = _current.get()
    return None if fence is None else fence.closed_because()
