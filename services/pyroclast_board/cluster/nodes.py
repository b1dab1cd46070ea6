"""The allocated resources of each node, updated with each change of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyroclast.api.types import Key
from pyroclast.resources.pods import Amounts, effective
from pyroclast.resources.quantity import ZERO
from pyroclast.views.readable import amount
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownNode, ShownPod

ENDED: Final = frozenset({"Succeeded", "Failed"})


class NodeBooks:
    """The sums of requests and the numbers of pods by node, and the nodes on which the pods of each Job run."""

    def __init__(self) -> None:
        self._held: dict[Key, tuple[str, Amounts, str]] = {}
        self._used: dict[str, Amounts] = {}
        self._pods: dict[str, int] = {}
        self._of_job: dict[str, dict[str, int]] = {}

    def put_pod(self, old: ShownPod | None, new: ShownPod | None) -> None:
        """Handle an added, updated or deleted pod."""
        if old is not None:
            self._release(old.key)
        if new is not None and new.spec.node_name and new.status.phase not in ENDED:
            controller = new.metadata.controller
            self._take(
                new.key, new.spec.node_name, effective(as_object(new.spec), "requests"), controller.uid if controller else ""
            )

    def pods(self, node: str) -> int:
        """Return how many pods are on a node."""
        return self._pods.get(node, 0)

    def free(self, node: ShownNode) -> Amounts:
        """Return the allocatable resources of a node minus the requests of its pods."""
        used = self._used.get(node.metadata.name, {})
        return {name: amount(value) - used.get(name, ZERO) for name, value in node.status.allocatable.items()}

    def nodes_of(self, job: str) -> Mapping[str, int]:
        """Return the nodes on which the Job with this UID has pods, with the number of pods on each."""
        return self._of_job.get(job, {})

    def _take(self, key: Key, node: str, requests: Amounts, owner: str) -> None:
        self._held[key] = (node, requests, owner)
        used = self._used.setdefault(node, {})
        for name, asked in requests.items():
            used[name] = used.get(name, ZERO) + asked
        self._pods[node] = self._pods.get(node, 0) + 1
        if owner:
            nodes = self._of_job.setdefault(owner, {})
            nodes[node] = nodes.get(node, 0) + 1

    def _release(self, key: Key) -> None:
        node, requests, owner = self._held.pop(key, ("", {}, ""))
        if not node:
            return
        used = self._used[node]
        for name, asked in requests.items():
            used[name] -= asked
        self._pods[node] -= 1
        if not self._pods[node]:
            del self._pods[node], self._used[node]
        nodes = self._of_job.get(owner, {})
        if node in nodes:
            nodes[node] -= 1
            if not nodes[node]:
                del nodes[node]
            if not nodes:
                del self._of_job[owner]
