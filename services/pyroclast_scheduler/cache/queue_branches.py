"""Finds the queues that a change of a queue concerns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyroclast_scheduler.model.queues import QueueFacts

_ROOT: Final = "root"


def branches(names: Collection[str], queues: Mapping[str, QueueFacts]) -> set[str]:
    """Return these queues and all their descendants. A queue without a parent is a child of the root."""
    found = set(names)
    for queue in queues if names else ():
        path: list[str] = []
        name = queue
        while name in queues and name not in found and name not in path:
            path.append(name)
            name = queues[name].parent or _ROOT
        if name in found:
            found.update(path)
    return found


def above(names: Collection[str], queues: Mapping[str, QueueFacts]) -> set[str]:
    """Return these queues and all their ancestors."""
    found: set[str] = set()
    for each in names:
        name = each
        while name not in found:
            found.add(name)
            if name not in queues:
                break
            name = queues[name].parent or _ROOT
    return found


def limited_by(name: str, queues: Mapping[str, QueueFacts]) -> list[str]:
    """Return the highest queue with a capability among `name` and its ancestors, if any.

    If the queue is unknown, return all queues with a capability.
    """
    limited, seen = "", set[str]()
    while name in queues and name not in seen:
        seen.add(name)
        limited = name if queues[name].capability else limited
        name = queues[name].parent
    if not seen:
        return [each for each, facts in queues.items() if facts.capability]
    return [limited] if limited else []
