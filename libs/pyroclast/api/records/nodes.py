"""The record of a Node: what the scheduler reads of it."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = ["ContainerImage", "Node", "NodeMeta", "NodeSpec", "NodeStatus", "Taint"]


class Taint(Wire, frozen=True, kw_only=True):
    """A taint, which pods must tolerate to be on the node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True, kw_only=True):
    """Whether pods may come, and which."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Wire, frozen=True, kw_only=True):
    """An image that the node has; size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Wire, frozen=True, kw_only=True):
    """What the node has and how it is."""

    capacity: Mapping[str, str | int] = {}
    allocatable: Mapping[str, str | int] = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class Node(ObjectRecord, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeMeta(ObjectRecord, frozen=True, kw_only=True):
    """The metadata of a node, for those who read labels only."""
