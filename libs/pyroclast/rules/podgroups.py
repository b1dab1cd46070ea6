"""Rules of PodGroup: the default queue of its namespace, and the checks of a new PodGroup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyroclast.api.keys import SCHEDULING_QUEUE_NAME
from pyroclast.rules.errors import forbidden, invalid
from pyroclast.rules.lookups import QueueLookup, queue_not_found
from pyroclast.rules.topology import BOTH_TIERS, check_topology
from pyroclast.rules.values import mapping, mappings, text
from pyroclast.rules.verdicts import Finding, Patch, Verdict, found, verdict_of

DEFAULT_QUEUE = "default"


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
    """Return the same operations for a spec that replaces the spec of `old` without a queue, as operators write at each sync.

    A PodGroup in queue `default` stays in that queue.
    """
    return [] if takes_queue_of_namespace(old) else default(pod_group, namespace_annotations)


def validate_create(pod_group: Mapping[str, Any], queues: QueueLookup) -> Verdict:
    """Return the verdict on a new PodGroup."""
    spec = mapping(pod_group.get("spec"))
    parts = [list(_check_queue(text(spec.get("queue")), queues)), list(_check_topologies(spec))]
    findings = [finding for part in parts for finding in part]
    verdict = verdict_of(findings)
    said = ("".join(finding.sentence for finding in part).strip() for part in parts)
    return replace(verdict, message="; ".join(filter(None, said)))


def _check_queue(name: str, queues: QueueLookup) -> Iterator[Finding]:
    if not name:
        return
    queue = queues.get(name)
    if queue is None:
        sentence = f"unable to find queue: {queue_not_found(name)}"
        yield found(sentence, invalid("spec.queue", name, sentence))
    elif queue.state not in ("", "Open"):
        sentence = f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{queue.state}`."
        yield replace(found(f" {sentence} ", forbidden("spec.queue", sentence)), about_fields=False)


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
