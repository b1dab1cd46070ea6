"""How much property tests try: a quarter of their full counts, the same each time; all of it, at random, by `make soak`."""

from __future__ import annotations

import os

__all__ = ["IS_SOAK", "ONE_IN", "examples"]

IS_SOAK = bool(os.environ.get("PYROCLAST_SOAK"))
ONE_IN = 1 if IS_SOAK else 4
"""One in so many of all there are is tried."""


def examples(full: int, *, one_in: int = ONE_IN) -> int:
    """The `max_examples` of a test whose full count is `full`; of what is expensive, less is tried outside the soak."""
    return full if IS_SOAK else max(full // one_in, 5)
