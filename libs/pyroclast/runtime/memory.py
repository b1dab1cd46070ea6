"""Garbage collection for a process that holds many small, long-lived records.

The records of informers are not tracked by the collector and cannot be part of a cycle; what remains is best collected seldom,
and what was loaded at the start never looked at again.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["freeze_loaded", "tune"]

THRESHOLDS: Final = (
    20_000,
    20,
    50,
)  # objects before a young collection; young ones before a middle one; middle ones before a full one


def tune() -> None:
    """Collect less often than by default, from now on."""
    gc.set_threshold(*THRESHOLDS)


def freeze_loaded() -> None:
    """Clean up once and exempt everything alive from later collections: call it when the first lists are complete."""
    gc.collect()
    gc.freeze()
