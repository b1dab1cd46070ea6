"""Pods that should have gone and have not, and whether their node can still be waited for."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast.api.records import Node, Pod
from pyroclast.lifecycle.times import parse_time

__all__ = ["ends", "is_ready"]


def ends(pods: Iterable[Pod], patience: float) -> list[tuple[Pod, float]]:
    """Until when each of `pods` that was asked to go may stay, in seconds since the epoch: `patience` seconds longer than the
    time that its containers have to end.

    A pod with finalizers is held by somebody else, and one without a node by nobody.
    """
    return [
        (pod, parse_time(pod.metadata.deletion_timestamp) + patience)
        for pod in pods
        if pod.metadata.deletion_timestamp and pod.spec.node_name and not pod.metadata.finalizers
    ]


def is_ready(node: Node) -> bool:
    """Whether the node says that it is ready; one that says nothing any more is Unknown."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
