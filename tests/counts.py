"""How many examples property tests try: a quarter of their full counts, and all of them by `make soak`."""

from __future__ import annotations

import os

__all__ = ["examples"]

_SHARE = 1 if os.environ.get("PYROCLAST_SOAK") else 4


def examples(full: int) -> int:
    """The `max_examples` of a test whose full count is `full`."""
    return max(full // _SHARE, 5)
