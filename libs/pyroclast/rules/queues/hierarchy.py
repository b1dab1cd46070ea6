"""Rules for a Queue in relation to its ancestors, siblings and descendants: parents, paths and resources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.resources.go_text import go_quote
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.lookups import DEFAULT_QUEUE, ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.queues.fields import amounts_of, described, exceeds, shown
from pyroclast.rules.verdicts import Finding, broken, found

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


def check_parent(queue: QueueView, queues: QueueLookup, max_depth: int) -> Iterator[Finding]:
    """Yield the first fault of the parent of `queue`. `max_depth`: the largest number of queues on a path below the root."""
    parent = queue.parent
    if parent in ("", ROOT_QUEUE):
        return
    path = "spec.parent"
    if parent == queue.name:
        yield broken(path, parent, f"queue {queue.name} cannot use itself as parent")
        return
    depth, ancestor = 1, parent
    while ancestor not in ("", ROOT_QUEUE):
        depth += 1
        if depth > max_depth:
            yield broken(path, parent, f"queue {queue.name} exceeds the maximum allowed depth of {max_depth}")
            return
        view = queues.get(ancestor)
        if view is None:
            yield broken(
                path, parent, f"failed to get parent queue {ancestor} of queue {queue.name}: {queue_not_found(ancestor)}"
            )
            return
        ancestor = view.parent
    yield from _check_busy(queue, queues)


def _check_busy(queue: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    """Yield a fault when the parent has allocated pods and no children yet, since only leaf queues may have jobs."""
    view = queues.get(queue.parent)
    if view is None or not view.allocated_pods or queues.children(queue.parent):
        return
    sentence = (
        f"queue {queue.parent} cannot be the parent queue of queue {queue.name} "
        f"because it has allocated Pods: {view.allocated_pods}"
    )
    yield replace(found(sentence, forbidden("spec.parent", sentence)), about_fields=False)


def parent_warnings(queue: QueueView, queues: QueueLookup) -> Iterator[str]:
    """Yield a warning when the parent gets its first child, after which the parent accepts no jobs."""
    parent = queue.parent
    if parent in ("", ROOT_QUEUE) or any(child.name != queue.name for child in queues.children(parent)):
        return
    unnamed = " or name no queue" if parent == DEFAULT_QUEUE else ""
    yield (
        f"spec.parent: queue {parent} has queues below it from now on, so jobs that name it{unnamed} are refused; "
        f"they have to name {queue.name} or another queue below it"
    )


_SHARES: tuple[tuple[str, str, Callable[[QueueView], Mapping[str, Any]]], ...] = (
    ("guarantee", "spec.guarantee.resource", lambda queue: queue.guarantee),
    ("deserved", "spec.deserved", lambda queue: queue.deserved),
)


def check_hierarchy(queue: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    """Yield the contradictions between the resources of `queue` and the resources of its ancestors, siblings or descendants."""
    if queue.parent not in ("", ROOT_QUEUE):
        parent = queues.get(queue.parent)
        if parent is None:
            yield broken("spec.parent", queue.parent, f"parent queue {queue.parent} not found: {queue_not_found(queue.parent)}")
        else:
            yield from _check_ancestors(queue, queues)
            siblings = (child for child in queues.children(parent.name) if child.name != queue.name)
            yield from _check_sums([*siblings, queue], parent, f"parent queue {parent.name}", queue)
    children = [child for child in queues.children(queue.name) if child.name != queue.name]
    if children:
        yield from _check_descendants(queue, children, queues)


def _check_ancestors(queue: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    for name, own in amounts_of(queue.capability).items():
        limit = _nearest_capability(queue, name, queues)
        if 0 < limit < own:
            yield _out_of_line(queue, name, own, f"exceeds its ancestor's capability={shown(name, limit)}")


def _out_of_line(queue: QueueView, name: str, own: int, relation: str) -> Finding:
    sentence = f"queue {queue.name} capability[{name}]={shown(name, own)} {relation}"
    return broken(f"spec.capability.{name}", str(queue.capability.get(name)), sentence)


def _nearest_capability(queue: QueueView, name: str, queues: QueueLookup) -> int:
    """Return the capability of `name` of the nearest ancestor below the root that sets one; 0 when none does."""
    seen: set[str] = set()
    parent = queue.parent
    while parent not in ("", ROOT_QUEUE) and parent not in seen:
        seen.add(parent)
        view = queues.get(parent)
        if view is None:
            return 0
        limit = amounts_of(view.capability).get(name, 0)
        if limit > 0:
            return limit
        parent = view.parent
    return 0


def _check_descendants(queue: QueueView, children: list[QueueView], queues: QueueLookup) -> Iterator[Finding]:
    for name, own in amounts_of(queue.capability).items():
        most = _most_below(children, name, queues)
        if 0 < own < most:
            yield _out_of_line(queue, name, own, f"is smaller than its descendants' max capability={shown(name, most)}")
    yield from _check_sums(children, queue, f"queue {queue.name}", queue)


def _check_sums(family: Sequence[QueueView], parent: QueueView, said: str, queue: QueueView) -> Iterator[Finding]:
    """Yield the shares whose sum over the children exceeds that of `parent`, each up to the first child with which it does."""
    excesses = []
    for share, path, of in _SHARES:
        whole, limit = Counter[str](), amounts_of(of(parent))
        for index, child in enumerate(family):
            whole.update(amounts_of(of(child)))
            if exceeds(whole, limit):
                sums = f"sum of children's {share} ({described(whole)}) exceeds parent's {share} limit ({described(limit)})"
                excesses.append((index, invalid(path, of(queue), f"{said} validation failed: {sums}")))
                break
    for _, error in sorted(excesses, key=lambda excess: excess[0]):
        yield found(error.detail, error)


def _most_below(children: list[QueueView], name: str, queues: QueueLookup) -> int:
    """Return the largest capability of `name` among the descendants; descendants of a queue that sets one are not examined."""
    most, seen = 0, {child.name for child in children}
    pending = list(children)
    while pending:
        child = pending.pop()
        own = amounts_of(child.capability).get(name, 0)
        if own > 0:
            most = max(most, own)
            continue
        below = [grandchild for grandchild in queues.children(child.name) if grandchild.name not in seen]
        seen.update(grandchild.name for grandchild in below)
        pending += below
    return most
