"""Rules for the queue of a Job: it must exist, be open, and be a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import forbidden, invalid
from pyroclast.rules.jobs.defaults import task_minimum
from pyroclast.rules.lookups import ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.values import mapping, mappings
from pyroclast.rules.verdicts import Finding, found

SHOWN_CHILDREN = 3
ROOT_REFUSED = "can not submit job to root queue"


def check_queue(name: str, queues: QueueLookup, path: str) -> Iterator[Finding]:
    """Yield the faults of the queue that the field at `path` names for a Job."""
    queue = queues.get(name)
    if queue is None:
        sentence = f"unable to find job queue: {queue_not_found(name)}"
        yield found(f" {sentence};", invalid(path, name, f"{sentence}; create the queue first or name another one"))
        return
    if not queue.is_open:
        sentence = f"can only submit job to queue with state `Open`, queue `{name}` status is `{queue.state}`"
        yield replace(found(f" {sentence};", forbidden(path, sentence)), about_fields=False)
    if name == ROOT_QUEUE:
        yield found(f" {ROOT_REFUSED};", invalid(path, name, f"{ROOT_REFUSED}; name a queue below it"))
        return
    if children := queues.children(name):
        sentence = f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues"
        names = ", ".join(child.name for child in children[:SHOWN_CHILDREN])
        yield found(f" {sentence};", invalid(path, name, f"{sentence}; name one below it, such as {names}"))


def queue_warnings(tasks: Sequence[Mapping[str, Any]], queue: QueueView) -> Iterator[str]:
    """Yield a warning when the capability of the queue is below the requests of the gang, so that the Job waits forever."""
    for resource, limit in queue.capability.items():
        most = amount(limit)
        needed = sum(_of_task(task, resource) for task in tasks)
        if most is not None and needed > most.millis:
            yield f"spec.queue: the job needs more {resource} to start than queue {queue.name} may ever use ({limit})"


def _of_task(task: Mapping[str, Any], resource: str) -> int:
    """Return the request of the task's minimum of pods, in thousandths. Init containers are ignored, which at worst omits a
    warning.
    """
    total = 0
    for _, container in mappings(mapping(mapping(task.get("template")).get("spec")).get("containers")):
        requests = mapping(mapping(container.get("resources")).get("requests"))
        asked = amount(requests.get(resource))
        total += asked.millis if asked is not None else 0
    return total * max(task_minimum(task), 0)
