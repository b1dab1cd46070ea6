"""Which nodes are kept for a PodGroup, as it stands on it. Pure."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from pyroclast.api import keys
from pyroclast.api.records.groups import PodGroup
from pyroclast_recorder.facts.units import clipped

__all__ = ["NO_NODES", "kept_nodes"]

NO_NODES: Final = "[]"
"""What is kept for a PodGroup that nothing is kept for."""


class _Lock(msgspec.Struct, frozen=True):
    node: str


class _Reservation(msgspec.Struct, frozen=True):
    locks: tuple[_Lock, ...] = ()


def kept_nodes(group: PodGroup, *, is_deleted: bool) -> str:
    """The names of the nodes as JSON; what cannot be read keeps none."""
    text = group.metadata.annotations.get(keys.RESERVATION, "")
    if not text or is_deleted:
        return NO_NODES
    try:
        locks = msgspec.json.decode(text, type=_Reservation).locks
    except (msgspec.MsgspecError, RecursionError):
        return NO_NODES
    return orjson.dumps(sorted({clipped(lock.node, 253) for lock in locks})).decode()
