"""Which shard a key belongs to: pure."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import Key

__all__ = ["shard_of"]

FNV_OFFSET: Final = 2166136261
FNV_PRIME: Final = 16777619


def shard_of(key: Key, shards: int) -> int:
    """The shard of `key` among `shards`: FNV-32a of `namespace/name`, modulo their number."""
    if shards <= 1:
        return 0
    digest = FNV_OFFSET
    for byte in f"{key.namespace}/{key.name}".encode():
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return digest % shards
