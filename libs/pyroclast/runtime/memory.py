"""Garbage collection for a process that holds many small, long-lived records.

The records of informers are not tracked by the collector and cannot be part of a cycle; what was loaded at the start is never
looked at again. How seldom the rest is collected says `pyroclast.lean`.
"""

from __future__ import annotations

import gc

__all__ = ["freeze_loaded"]


def freeze_loaded() -> None:
    """Clean up once and exempt everything alive from later collections: call it when the first lists are complete."""
    gc.collect()
    gc.freeze()
