"""Rules for the resources of a Queue in relation to its ancestors, siblings and descendants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.lookups import ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.queues.amounts import Amounts, exceeds, shown, total
from pyroclast.rules.verdicts import Finding, found

_SHARES: tuple[tuple[str, str, Callable[[QueueView], Mapping[str, Any]]], ...] = (
    ("guarantee", "spec.guarantee.resource", lambda queue: queue.guarantee),
    ("deserved", "spec.deserved", lambda queue: queue.deserved),
)


def check_hierarchy(queue: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    """Yield the contradictions between the resources of `queue` and the resources of its ancestors, siblings or descendants."""
    if queue.parent not in ("", ROOT_QUEUE):
        parent = queues.get(queue.parent)
        if parent is None:
            sentence = f"parent queue {queue.parent} not found: {queue_not_found(queue.parent)}"
            yield found(sentence, invalid("spec.parent", queue.parent, sentence))
        else:
            yield from _check_ancestors(queue, queues)
            yield from _check_siblings(queue, parent, queues)
    children = [child for child in queues.children(queue.name) if child.name != queue.name]
    if children:
        yield from _check_descendants(queue, children, queues)


def _check_ancestors(queue: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    for name, own in Amounts.of(queue.capability).dimensions().items():
        limit = _nearest_capability(queue, name, queues)
        if 0 < limit < own:
            sentence = (
                f"queue {queue.name} capability[{name}]={shown(name, own)} exceeds its ancestor's capability={shown(name, limit)}"
            )
            yield found(sentence, invalid(f"spec.capability.{name}", str(queue.capability.get(name)), sentence))


def _nearest_capability(queue: QueueView, name: str, queues: QueueLookup) -> int:
    """Return the capability of `name` of the nearest ancestor below the root that sets one; 0 when none does."""
    seen: set[str] = set()
    parent = queue.parent
    while parent not in ("", ROOT_QUEUE) and parent not in seen:
        seen.add(parent)
        view = queues.get(parent)
        if view is None:
            return 0
        limit = Amounts.of(view.capability).dimensions().get(name, 0)
        if limit > 0:
            return limit
        parent = view.parent
    return 0


def _check_siblings(queue: QueueView, parent: QueueView, queues: QueueLookup) -> Iterator[Finding]:
    family = [*(child for child in queues.children(parent.name) if child.name != queue.name), queue]
    yield from _check_sums(family, parent, f"parent queue {parent.name}", queue)


def _check_descendants(queue: QueueView, children: list[QueueView], queues: QueueLookup) -> Iterator[Finding]:
    for name, own in Amounts.of(queue.capability).dimensions().items():
        most = _most_below(children, name, queues)
        if 0 < own < most:
            sentence = (
                f"queue {queue.name} capability[{name}]={shown(name, own)} "
                f"is smaller than its descendants' max capability={shown(name, most)}"
            )
            yield found(sentence, invalid(f"spec.capability.{name}", str(queue.capability.get(name)), sentence))
    yield from _check_sums(children, queue, f"queue {queue.name}", queue)


def _check_sums(family: Sequence[QueueView], parent: QueueView, said: str, queue: QueueView) -> Iterator[Finding]:
    """Yield the shares whose sum over the children of `parent` exceeds the share of `parent`. `queue`: the queue that is written.

    Like Volcano, report each sum up to the first queue with which it is too large, in the order of these queues.
    """
    excesses = []
    for share, path, of in _SHARES:
        whole, limit = Amounts(), Amounts.of(of(parent))
        for index, child in enumerate(family):
            whole = total((whole, Amounts.of(of(child))))
            if exceeds(whole, limit):
                sums = f"sum of children's {share} ({whole}) exceeds parent's {share} limit ({limit})"
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
        own = Amounts.of(child.capability).dimensions().get(name, 0)
        if own > 0:
            most = max(most, own)
            continue
        below = [grandchild for grandchild in queues.children(child.name) if grandchild.name not in seen]
        seen.update(grandchild.name for grandchild in below)
        pending += below
    return most
