"""The rank and the number of pods that a function can read inside a pod and outside."""

from __future__ import annotations

import os


def rank() -> int:
    """Return the index of this pod in its gang or sweep, from 0. Outside of a pod, return 0."""
    return int(os.environ.get("PYROCLAST_INDEX") or 0)


def world() -> int:
    """Return the number of pods of this gang or sweep. Outside of a pod, return 1."""
    return int(os.environ.get("PYROCLAST_WORLD") or 1)
