"""Rules for the parent of a Queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyroclast.rules.errors import forbidden, invalid
from pyroclast.rules.lookups import DEFAULT_QUEUE, ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.verdicts import Finding, found


def check_parent(queue: QueueView, queues: QueueLookup, max_depth: int) -> Iterator[Finding]:
    """Yield the first fault of the parent of `queue`. `max_depth`: the largest number of queues on a path below the root."""
    parent = queue.parent
    if parent in ("", ROOT_QUEUE):
        return
    path = "spec.parent"
    if parent == queue.name:
        sentence = f"queue {queue.name} cannot use itself as parent"
        yield found(sentence, invalid(path, parent, sentence))
        return
    depth, ancestor = 1, parent
    while ancestor not in ("", ROOT_QUEUE):
        depth += 1
        if depth > max_depth:
            sentence = f"queue {queue.name} exceeds the maximum allowed depth of {max_depth}"
            yield found(sentence, invalid(path, parent, sentence))
            return
        view = queues.get(ancestor)
        if view is None:
            sentence = f"failed to get parent queue {ancestor} of queue {queue.name}: {queue_not_found(ancestor)}"
            yield found(sentence, invalid(path, parent, sentence))
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
