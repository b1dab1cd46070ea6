"""Defaults of a new Queue, as a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.rules.lookups import ROOT_QUEUE
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Patch


def default(queue: Mapping[str, Any]) -> Patch:
    """Return the operations that set the defaults of `queue`.

    A queue without spec gets a spec. Values of a wrong type stay, because the schema reports them.
    """
    patch = _rooted(mapping(mapping(queue.get("metadata")).get("annotations")))
    spec = queue.get("spec")
    if spec is None:
        return [*patch, {"op": "add", "path": "/spec", "value": {"reclaimable": True, "weight": 1}}]
    if not isinstance(spec, dict):
        return patch
    if spec.get("reclaimable") is None:
        patch.append({"op": "add", "path": "/spec/reclaimable", "value": True})
    weight = spec.get("weight")
    if weight is None or (type(weight) is int and weight == 0):
        patch.append({"op": "add", "path": "/spec/weight", "value": 1})
    return patch


def _rooted(annotations: Mapping[str, Any]) -> Patch:
    """Return the operations that make the path of the hierarchy start at the root."""
    hierarchy, weights = text(annotations.get(HIERARCHY)), text(annotations.get(HIERARCHY_WEIGHTS))
    if not hierarchy or not weights or hierarchy.split("/")[0] == ROOT_QUEUE:
        return []
    return [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
        for key, value in ((HIERARCHY, f"{ROOT_QUEUE}/{hierarchy}"), (HIERARCHY_WEIGHTS, f"1/{weights}"))
    ]
