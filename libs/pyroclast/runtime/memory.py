"""Garbage collection for a process that holds many small, long-lived records.

The records of informers are not tracked by the collector and cannot be part of a cycle; what was loaded at the start is never
looked at again. How seldom the rest is collected says `pyroclast.lean`.
"""

from __future__ import annotations

import gc

__all__ = ["clean_up", "freeze_loaded"]


def clean_up() -> None:
    """Free what loading the program left over: call it before there is a loop to be held, or much else to look through."""
    gc.collect()


def freeze_loaded() -> None:
    """Exempt everything alive from later collections: call it when the first lists are complete.

    It takes no time. To look through all of it once more would hold the loop for longer than anything else does.
    """
    gc.freeze()
