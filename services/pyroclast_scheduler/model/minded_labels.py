"""The labels of pods that decide where pods go: those that terms and constraints of any pod name."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["MindedLabels"]


class MindedLabels:
    """Keys that were named once. `version` rises with each new one: what was taken for alike before may differ in it."""

    def __init__(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self.version = 0

    def learn(self, keys: Collection[str]) -> None:
        """A pod names these."""
        if not self.keys.issuperset(keys):
            self.keys = self.keys.union(keys)
            self.version += 1
