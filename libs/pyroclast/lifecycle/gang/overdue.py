"""Pods that stay longer than their grace period after their deletion, and whether their nodes are ready."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast.api.records import Node, Pod
from pyroclast.lifecycle.times import parse_time


def ends(pods: Iterable[Pod], patience: float) -> list[tuple[Pod, float]]:
    """Return the deleted pods of `pods`, each with the time (seconds since the epoch) by which it should be gone.

    That time is `patience` seconds after the end of the grace period. Pods with finalizers are left out, because another
    component keeps them. Pods without a node are left out too, because nothing keeps them.
    """
    return [
        (pod, parse_time(pod.metadata.deletion_timestamp) + patience)
        for pod in pods
        if pod.metadata.deletion_timestamp and pod.spec.node_name and not pod.metadata.finalizers
    ]


def is_ready(node: Node) -> bool:
    """Whether the node reports Ready; a node that no longer reports has the status Unknown."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
