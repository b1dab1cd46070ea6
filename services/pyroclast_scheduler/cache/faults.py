"""Faults: objects that make no sense, what is wrong with them, and what to tell it about."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.types import ResourceType

__all__ = ["Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one object."""

    kind: ResourceType
    namespace: str
    name: str
    uid: str
    reason: str
