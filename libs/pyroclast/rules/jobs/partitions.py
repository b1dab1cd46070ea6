"""Rules for the partitions of a task: their sizes must add up to its replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.topology import BOTH_TIERS, check_topology
from pyroclast.rules.values import integer, optional_integer, text
from pyroclast.rules.verdicts import Finding, first_only, found


def check_partitions(task: Mapping[str, Any], path: str, job_name: str) -> list[Finding]:
    """Return the faults of `partitionPolicy` of the task at `path`.

    Without `totalPartitions` the number of partitions follows from the replicas, so there is no product to check.
    """
    policy = task.get("partitionPolicy")
    if not isinstance(policy, dict):
        return []
    findings = first_only(_check_sizes(task, policy, path, job_name))
    error = check_topology(policy.get("networkTopology"), f"{path}.partitionPolicy.networkTopology")
    return [*findings, found(BOTH_TIERS, error)] if error else findings


def _check_sizes(task: Mapping[str, Any], policy: Mapping[str, Any], path: str, job_name: str) -> Iterator[Finding]:
    where = f"in task: {text(task.get('name'))}, job: {job_name}"
    path = f"{path}.partitionPolicy"
    total, size = optional_integer(policy.get("totalPartitions")), integer(policy.get("partitionSize"))
    replicas, minimum = integer(task.get("replicas")), integer(policy.get("minPartitions"))
    available = optional_integer(task.get("minAvailable"))
    if total is not None and total <= 0:
        sentence = f"'TotalPartitions' must be greater than 0 {where}"
        yield found(sentence, invalid(f"{path}.totalPartitions", total, sentence))
    if size <= 0:
        sentence = f"'PartitionSize' must be greater than 0 {where}"
        yield found(sentence, invalid(f"{path}.partitionSize", size, sentence))
    if size <= 0 or (total is not None and total <= 0):
        return
    if total is not None and replicas != total * size:
        sentence = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
        yield found(sentence, invalid(f"{path}.totalPartitions", total, f"{sentence}; {total}*{size} is not {replicas}"))
    if available is not None and minimum > 0 and minimum * size != available:
        sentence = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
        yield found(sentence, invalid(f"{path}.minPartitions", minimum, f"{sentence}; {minimum}*{size} is not {available}"))
