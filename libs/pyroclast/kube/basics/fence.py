"""Fencing: a task that leads by a Lease begins no write once that Lease may have been lost.

The fence is stored in the context of the leading task and of every task that it starts, so callers need not name the fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Fence(Protocol):
    """Decides whether writes may begin."""

    def closed_because(self) -> str | None:
        """Return why no write may begin now; None when writes may begin."""


_current: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Refuse every write of this block, and of the tasks that the block starts, while `fence` is closed."""
    token = _current.set(fence)
    try:
        yield
    finally:
        _current.reset(token)


def closed_because() -> str | None:
    """Return why the current task may not begin a write; None when the task may."""
    fence = _current.get()
    return None if fence is None else fence.closed_because()
