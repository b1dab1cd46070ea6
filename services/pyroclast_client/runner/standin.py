"""The functions that code in a pod needs of the client. In images without the client, this module replaces it."""

from __future__ import annotations

import os
from typing import Any


def rank() -> int:
    """Return the index of this pod in its gang or sweep, from 0. Outside of a pod, return 0."""
    return int(os.environ.get("PYROCLAST_INDEX") or 0)


def world() -> int:
    """Return the number of pods of this gang or sweep. Outside of a pod, return 1."""
    return int(os.environ.get("PYROCLAST_WORLD") or 1)


def task(function: Any = None, **options: Any) -> Any:
    """Return the function unchanged: in a pod the function is only called."""
    del options
    return function if function is not None else lambda found: found


flow = task
