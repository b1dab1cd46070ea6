"""The record of a Node, with the fields that the scheduler reads."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class Taint(Wire, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Wire, frozen=True, kw_only=True):
    """A container image on the node; the size is in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Wire, frozen=True, kw_only=True):
    capacity: Mapping[str, str | int] = {}
    allocatable: Mapping[str, str | int] = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class Node(ObjectRecord, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeConditions(Wire, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class NodeHealth(ObjectRecord, frozen=True, kw_only=True):
    """A node, for readers that need to know whether it answers."""

    status: NodeConditions = NodeConditions()

    @property
    def silent_since(self) -> str:
        """When the node stopped to answer, as an API timestamp; empty while it answers or has not said anything yet."""
        ready = next((each for each in self.status.conditions if each.type == "Ready"), None)
        return (ready.last_transition_time or "") if ready is not None and ready.status == "Unknown" else ""


class NodeMeta(ObjectRecord, frozen=True, kw_only=True):
    """The metadata of a node, for readers of labels only."""
