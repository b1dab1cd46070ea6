"""The pod labels that decide the placement of pods: those that affinity terms or spread constraints of any pod use."""

from __future__ import annotations

from collections.abc import Collection


class MindedLabels:
    """All label keys that were used once. `version` increases with each new key.

    A new key invalidates earlier equivalence classes, since pods of one class may differ in this label.
    """

    def __init__(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self.version = 0

    def learn(self, keys: Collection[str]) -> None:
        """Add the label keys that a pod uses."""
        if not self.keys.issuperset(keys):
            self.keys = self.keys.union(keys)
            self.version += 1
