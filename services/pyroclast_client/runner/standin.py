"""Stands in for the client in images that do not have it: what a function needs of it inside a pod."""

from __future__ import annotations

import os
from typing import Any


def rank() -> int:
    """The number of this pod in its gang or sweep, from 0."""
    return int(os.environ.get("PYROCLAST_INDEX") or 0)


def world() -> int:
    """The number of pods of this gang or sweep."""
    return int(os.environ.get("PYROCLAST_WORLD") or 1)


def task(function: Any = None, **options: Any) -> Any:
    """Leave the function as it is: in a pod it is only called."""
    del options
    return function if function is not None else lambda found: found


flow = task
