"""Garbage collection in a process with many small, long-lived records.

The collector does not track the records of informers, which cannot be part of a reference cycle. The objects loaded at the start
are never scanned again. `pyroclast.lean` sets how rarely other objects are scanned.
"""

from __future__ import annotations

import gc


def clean_up() -> None:
    """Free the garbage of loading the program. Call this before the event loop starts, while there is little to scan."""
    gc.collect()


def freeze_loaded() -> None:
    """Exempt all present objects from later collections. Call this when the first lists are complete.

    Freezing takes no time. A full collection of these objects would block the loop longer than anything else.
    """
    gc.freeze()
