"""NodeShard: the nodes that one of several schedulers may use. The object has the name of the scheduler."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.kinds import AGE, CustomKind
from pyroclast.api.wire import ApiObject, Time, WireModel


class NodeShardSpec(WireModel):
    """The nodes that a scheduler should use."""

    nodes_desired: list[str]
    """Names of the nodes."""


class NodeShardStatus(WireModel):
    """The nodes that a scheduler uses."""

    last_update_time: Time | None = None
    """When the status was last written."""
    nodes_in_use: list[str] | None = None
    """Nodes that the scheduler uses."""
    nodes_to_add: list[str] | None = None
    """Nodes that the scheduler will add."""
    nodes_to_remove: list[str] | None = None
    """Nodes that the scheduler will give up."""


class NodeShard(ApiObject):
    """A NodeShard is the set of nodes that the scheduler of the same name may use."""

    spec: NodeShardSpec
    """The nodes that the scheduler should use."""
    status: NodeShardStatus | None = None
    """The nodes that the scheduler uses."""


KIND = CustomKind(types.NODE_SHARDS, NodeShard, ("nsh",), (AGE,))
