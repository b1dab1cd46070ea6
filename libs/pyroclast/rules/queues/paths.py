"""Rules for the hierarchy annotations of a Queue: a path from the root, and a weight for each step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.resources.go_text import go_quote
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.lookups import QueueLookup, QueueView

_NUMBER = re.compile(
    r"[+-]?((([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)|(0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+)|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)


def check_paths(queue: QueueView, queues: QueueLookup) -> Iterator[FieldError]:
    """Yield the first fault of the annotations of `queue`, also in relation to other queues."""
    hierarchy, weights = queue.hierarchy, queue.hierarchy_weights
    if not hierarchy and not weights:
        return
    path = "metadata.annotations"
    parts = weights.split("/")
    if len(hierarchy.split("/")) != len(parts):
        yield invalid(path, hierarchy, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
        return
    for weight in parts:
        problem = _weight_problem(weight)
        if problem:
            yield invalid(path, weights, f"{weight} in the {weights} {problem}")
            return
    for other in queues.all():
        if other.name != queue.name and other.hierarchy.startswith(f"{hierarchy}/"):
            detail = f"{hierarchy} is not allowed to be in the sub path of {other.hierarchy} of queue {other.name}"
            yield invalid(path, hierarchy, detail)
            return


def _weight_problem(weight: str) -> str:
    said = f"is invalid number: strconv.ParseFloat: parsing {go_quote(weight)}:"
    if not _NUMBER.fullmatch(weight):
        return f"{said} invalid syntax"
    try:
        number = float.fromhex(weight) if "0x" in weight.lower() else float(weight)
    except OverflowError:
        return f"{said} value out of range"
    if number == float("inf") and "inf" not in weight.lower():
        return f"{said} value out of range"
    return "" if number > 0 else "must be larger than 0"
