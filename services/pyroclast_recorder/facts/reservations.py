"""The nodes that are reserved for a PodGroup, from its annotation. Pure."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from pyroclast.api import keys
from pyroclast.api.records.groups import PodGroup
from pyroclast_recorder.facts.units import clipped

NO_NODES: Final = "[]"
"""The value for a PodGroup without reserved nodes, as JSON."""


class _Lock(msgspec.Struct, frozen=True):
    node: str


class _Reservation(msgspec.Struct, frozen=True):
    locks: tuple[_Lock, ...] = ()


def kept_nodes(group: PodGroup, *, is_deleted: bool) -> str:
    """Return the names of the reserved nodes as JSON. An invalid annotation reserves no nodes."""
    text = group.metadata.annotations.get(keys.RESERVATION, "")
    if not text or is_deleted:
        return NO_NODES
    try:
        locks = msgspec.json.decode(text, type=_Reservation).locks
    except (msgspec.MsgspecError, RecursionError):
        return NO_NODES
    return orjson.dumps(sorted({clipped(lock.node, 253) for lock in locks})).decode()
