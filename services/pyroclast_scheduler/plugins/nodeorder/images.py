"""Scores nodes higher if they already have the images of a pod."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.shapes import Shape

_MIB: Final = 2**20
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB  # per container


def locality(shape: Shape, features: NodeFeatures, usable: Bools) -> Floats | None:
    """Return a score from 0 to 100 per node by the sizes of its images; None if no node has any of them.

    The size of an image is multiplied by the fraction of the nodes that have the image.
    """
    total = int(usable.sum())
    if not shape.images or not total:
        return None
    found = np.zeros(len(usable))
    for name in shape.images:
        sizes = features.image(_normal(name))
        found += np.trunc(sizes * (np.count_nonzero(sizes[usable]) / total))
    if not found.any():
        return None
    most = _MOST * len(shape.images)
    return np.floor(100 * (np.clip(found, _LEAST, most) - _LEAST) / (most - _LEAST))


def _normal(name: str) -> str:
    """Return the name of an image with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
