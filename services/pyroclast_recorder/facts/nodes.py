"""The rows of nodes: the allocatable resources, and whether the node is down. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from pyroclast.api.records.nodes import Node
from pyroclast_recorder.facts.units import clipped, read_amounts

GONE = "{}"
"""The allocatable resources of a deleted node, as JSON."""


def node_facts(node: Node, *, is_deleted: bool) -> dict[str, Any]:
    """Return the columns of the state of a node. A node that is not ready or is cordoned counts as down."""
    if is_deleted:
        return {"name": clipped(node.metadata.name, 253), "allocatable": GONE, "is_down": 0}
    amounts = read_amounts(node.status.allocatable)
    amounts.pop("pods", None)
    is_ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    allocatable = orjson.dumps(amounts, option=orjson.OPT_SORT_KEYS).decode()
    return {
        "name": clipped(node.metadata.name, 253),
        "allocatable": allocatable,
        "is_down": int(not is_ready or node.spec.unschedulable),
    }
