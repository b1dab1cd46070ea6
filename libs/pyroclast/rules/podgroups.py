"""Rules of PodGroup: the default queue of its namespace, its amounts and its network topology, which Jobs have too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyroclast.api.keys import SCHEDULING_QUEUE_NAME
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.lookups import DEFAULT_QUEUE, ROOT_QUEUE, QueueLookup, queue_not_found
from pyroclast.rules.values import Json, amount, integer, mapping, mappings, text
from pyroclast.rules.verdicts import ALLOWED, Finding, Patch, Verdict, broken, found, verdict_of

BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def check_topology(topology: Json, path: str) -> FieldError | None:
    """Return the error of a topology (at `path`) that gives its limit twice; None otherwise."""
    given = mapping(topology)
    name = text(given.get("highestTierName"))
    if given.get("highestTierAllowed") is None or not name:
        return None
    return invalid(f"{path}.highestTierName", name, f"{BOTH_TIERS}; keep one of them")


ROOT_GROUP_REFUSED = "can not submit PodGroup to root queue"
NOT_NEGATIVE = "must be greater than or equal to 0"


def takes_queue_of_namespace(pod_group: Mapping[str, Any]) -> bool:
    """Whether the PodGroup names no queue, so that the schema has set its queue to `default`."""
    return mapping(pod_group.get("spec")).get("queue") == DEFAULT_QUEUE


def default(pod_group: Mapping[str, Any], namespace_annotations: Mapping[str, Any]) -> Patch:
    """Return the operations that set the queue of the PodGroup to the queue of its namespace."""
    queue = namespace_annotations.get(SCHEDULING_QUEUE_NAME)
    if not takes_queue_of_namespace(pod_group) or not isinstance(queue, str):
        return []
    return [{"op": "add", "path": "/spec/queue", "value": queue}]


def default_update(pod_group: Mapping[str, Any], old: Mapping[str, Any], namespace_annotations: Mapping[str, Any]) -> Patch:
    """Return the same operations for a spec without a queue that replaces that of `old`, unless `old` is in queue `default`."""
    return [] if takes_queue_of_namespace(old) else default(pod_group, namespace_annotations)


def validate_create(pod_group: Mapping[str, Any], queues: QueueLookup) -> Verdict:
    """Return the verdict on a new PodGroup."""
    return _validate(mapping(pod_group.get("spec")), queues)


def validate_update(pod_group: Mapping[str, Any], old: Mapping[str, Any], queues: QueueLookup) -> Verdict:
    """Return the verdict on changing `old`. A queue that stays may be closed or deleted meanwhile."""
    spec, before = mapping(pod_group.get("spec")), mapping(old.get("spec"))
    if spec == before:
        return ALLOWED
    return _validate(spec, queues if spec.get("queue") != before.get("queue") else None)


def _validate(spec: Mapping[str, Any], queues: QueueLookup | None) -> Verdict:
    in_queue = list(_check_queue(text(spec.get("queue")), queues)) if queues is not None else []
    parts = [in_queue, list(_check_topologies(spec)), list(_check_amounts(spec))]
    findings = [finding for part in parts for finding in part]
    verdict = verdict_of(findings)
    said = ("".join(finding.sentence for finding in part).strip() for part in parts)
    return replace(verdict, message="; ".join(filter(None, said)))


def _check_queue(name: str, queues: QueueLookup) -> Iterator[Finding]:
    if not name:
        return
    queue = queues.get(name)
    if queue is None:
        yield broken("spec.queue", name, f"unable to find queue: {queue_not_found(name)}")
    elif name == ROOT_QUEUE:
        yield found(ROOT_GROUP_REFUSED, invalid("spec.queue", name, f"{ROOT_GROUP_REFUSED}; name a queue below it"))
    elif queue.state not in ("", "Open"):
        sentence = f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{queue.state}`."
        yield replace(found(f" {sentence} ", forbidden("spec.queue", sentence)), about_fields=False)


def _check_amounts(spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a fault for each number below 0: it would lower the sum of the queue, and so let others above its limits."""
    counts = [("spec.minMember", spec.get("minMember"))]
    counts += [(f"spec.minTaskMember[{task}]", value) for task, value in mapping(spec.get("minTaskMember")).items()]
    negative = [(path, value) for path, value in counts if integer(value) < 0]
    for resource, value in mapping(spec.get("minResources")).items():
        quantity = amount(value)
        if quantity is not None and quantity.millis < 0:
            negative.append((f"spec.minResources[{resource}]", value))
    for path, value in negative:
        error = invalid(path, value, NOT_NEGATIVE)
        yield Finding(f"{error}. ", (error,), extra=True)


def _check_topologies(spec: Mapping[str, Any]) -> Iterator[Finding]:
    if error := check_topology(spec.get("networkTopology"), "spec.networkTopology"):
        yield found(f"{BOTH_TIERS}. ", error)
    said = True
    for index, policy in mappings(spec.get("subGroupPolicy")):
        error = check_topology(policy.get("networkTopology"), f"spec.subGroupPolicy[{index}].networkTopology")
        if error:
            sentence = f"in subGroupPolicy '{text(policy.get('name'))}': {BOTH_TIERS}. " if said else ""
            yield found(sentence, error)
            said = False
