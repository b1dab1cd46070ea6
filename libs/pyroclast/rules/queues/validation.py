"""The checks for creation, changes and deletion of a Queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyroclast.rules.errors import FieldError
from pyroclast.rules.lookups import DEFAULT_QUEUE, ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.queues.fields import check_budget, check_namespaces, check_person_limits, check_resources, check_state
from pyroclast.rules.queues.hierarchy import check_hierarchy, check_parent, check_paths, parent_warnings
from pyroclast.rules.verdicts import ALLOWED, Finding, Verdict, denied, field_verdict, first_only, verdict_of

ROOT_PROTECTED = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of the queue hierarchy. `max_depth`: the largest number of queues on a path from below the root to a leaf.

    `protect_root`: the resources of the root queue must not change. `keep_allocated`: a queue with pods is not deleted.
    """

    max_depth: int = 5
    protect_root: bool = True
    keep_allocated: bool = False


def validate_create(queue: Mapping[str, Any], queues: QueueLookup, limits: QueueLimits) -> Verdict:
    """Return the verdict on a new Queue. All faults are reported at once; the message begins with Volcano's sentence."""
    view = QueueView.of(queue)
    errors = [*check_resources(view), *check_state(view.state), *check_paths(view, queues), *_check_annotations(view)]
    placed = list(check_parent(view, queues, limits.max_depth))
    findings = chain(_own(errors), placed, () if placed or view.name == ROOT_QUEUE else check_hierarchy(view, queues))
    return verdict_of(first_only(findings), warnings=tuple(parent_warnings(view, queues)))


def validate_update(queue: Mapping[str, Any], old: Mapping[str, Any], queues: QueueLookup, limits: QueueLimits) -> Verdict:
    """Return the verdict on changing `old` to `queue`. The state is not checked, because the controller owns it."""
    view, before = QueueView.of(queue), QueueView.of(old)
    errors = [*check_resources(view), *check_paths(view, queues), *_check_annotations(view, before)]
    moved = view.parent != before.parent
    resized = not all(
        same_meaning({"resource": new}, {"resource": was})
        for new, was in (
            (view.capability, before.capability),
            (view.deserved, before.deserved),
            (view.guarantee, before.guarantee),
        )
    )
    placed = list(check_parent(view, queues, limits.max_depth)) if moved else []
    if view.name == ROOT_QUEUE and resized and limits.protect_root and not errors and not placed:
        return denied(ROOT_PROTECTED)
    around = check_hierarchy(view, queues) if view.name != ROOT_QUEUE and (moved or resized) and not placed else ()
    warnings = tuple(parent_warnings(view, queues)) if moved else ()
    return verdict_of(first_only(chain(_own(errors), placed, around)), warnings=warnings)


def _check_annotations(view: QueueView, before: QueueView | None = None) -> Iterator[FieldError]:
    """Yield the faults of the annotations of Pyroclast that differ from those `before`; of all at a creation."""
    if before is None or view.budget != before.budget:
        yield from check_budget(view.budget)
    if before is None or view.namespaces != before.namespaces:
        yield from check_namespaces(view.namespaces)
    if before is None or view.person_limits != before.person_limits:
        yield from check_person_limits(view.person_limits)


def validate_delete(name: str, queues: QueueLookup, limits: QueueLimits) -> Verdict:
    """Return the verdict on deleting the queue of that name."""
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        return denied(f"`{name}` queue can not be deleted")
    queue = queues.get(name)
    if queue is None:
        return denied(queue_not_found(name))
    if limits.keep_allocated and queue.allocated_pods:
        return denied(f"queue {name} cannot be deleted because it has allocated Pods: {queue.allocated_pods}")
    if children := queues.children(name):
        names = ", ".join(child.name for child in children)
        return denied(f"queue {name} can not be deleted because it has {len(children)} child queues: {names}")
    return ALLOWED


def _own(errors: list[FieldError]) -> Iterator[Finding]:
    """Yield one finding for all errors of the queue's own fields. Volcano reports them together, each under `requestBody`."""
    if errors:
        said = field_verdict([error.under("requestBody") for error in errors]).message
        yield Finding(said, tuple(errors))
