"""Where a function runs: what it may ask inside a pod, and outside."""

from __future__ import annotations

import os

__all__ = ["rank", "world"]


def rank() -> int:
    """The number of this pod in its gang or sweep, from 0; 0 outside a pod."""
    return int(os.environ.get("PYROCLAST_INDEX") or 0)


def world() -> int:
    """The number of pods of this gang or sweep; 1 outside a pod."""
    return int(os.environ.get("PYROCLAST_WORLD") or 1)
