"""NodeShard: the nodes that one of several schedulers may use. The object bears the name of the scheduler."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.kinds import AGE, CustomKind
from pyroclast.api.wire import ApiObject, Time, WireModel

__all__ = ["KIND", "NodeShard", "NodeShardSpec", "NodeShardStatus"]


class NodeShardSpec(WireModel):
    """Which nodes a scheduler should use."""

    nodes_desired: list[str]
    """Names of the nodes."""


class NodeShardStatus(WireModel):
    """Which nodes a scheduler uses."""

    last_update_time: Time | None = None
    """When the status was written last."""
    nodes_in_use: list[str] | None = None
    """Nodes that it uses."""
    nodes_to_add: list[str] | None = None
    """Nodes that it is about to take."""
    nodes_to_remove: list[str] | None = None
    """Nodes that it is about to give up."""


class NodeShard(ApiObject):
    """A NodeShard is the set of nodes that the scheduler of the same name may use."""

    spec: NodeShardSpec
    """Which nodes it should use."""
    status: NodeShardStatus | None = None
    """Which nodes it uses."""


KIND = CustomKind(types.NODE_SHARDS, NodeShard, ("nsh",), (AGE,))
