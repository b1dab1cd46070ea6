"""Which PodGroups of Kubernetes are below which CompositePodGroup, by the parents that they name.

Belongs to the cache's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyroclast.api import records
from pyroclast.api.types import ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.group_readers.composite import Child, Leaf, Node
from pyroclast_scheduler.cache.objects import is_older
from pyroclast_scheduler.model.groups import Hold

__all__ = ["GroupTrees", "Root"]

_Key = tuple[str, str]  # namespace and name
_FIELD: Final = "spec.parentCompositePodGroupName"
_DIVIDED: Final = "schedulers that share Jobs by a hash do not serve CompositePodGroups"


class Root(NamedTuple):
    """The highest CompositePodGroup above a PodGroup; without one `obstacle` says why nothing of it may be placed."""

    key: _Key | None
    obstacle: Hold | None = None


class GroupTrees:
    """Keeps CompositePodGroups, and PodGroups that name a parent.

    `is_served`: the API server has CompositePodGroups. `is_divided`: several schedulers divide pods and nodes among them, so that
    none has all that is below one.
    """

    def __init__(self) -> None:
        self.is_served = self.is_divided = False
        self._composites: dict[_Key, tuple[records.CompositePodGroup, ResourceType]] = {}
        self._leaves: dict[_Key, tuple[records.NativePodGroup, ResourceType]] = {}
        self._composites_below: dict[_Key, dict[_Key, None]] = {}
        self._leaves_below: dict[_Key, dict[_Key, None]] = {}

    def composite_changed(self, key: _Key, record: records.CompositePodGroup | None, kind: ResourceType) -> bool:
        """A CompositePodGroup came, changed, or went (None); False if it is older than what is known."""
        self.is_served = True
        known = self._composites.pop(key, None)
        if known is not None:
            if record is not None and is_older(record, known[0]):
                self._composites[key] = known
                return False
            _unlink(self._composites_below, key, known[0].spec.parent_composite_pod_group_name)
        if record is not None:
            self._composites[key] = record, kind
            _link(self._composites_below, key, record.spec.parent_composite_pod_group_name)
        return True

    def leaf_changed(self, key: _Key, record: records.NativePodGroup | None, kind: ResourceType) -> None:
        """A PodGroup came, changed, or went (None)."""
        known = self._leaves.pop(key, None)
        if known is not None:
            _unlink(self._leaves_below, key, known[0].spec.parent_composite_pod_group_name)
        if record is not None and record.spec.parent_composite_pod_group_name:
            self._leaves[key] = record, kind
            _link(self._leaves_below, key, record.spec.parent_composite_pod_group_name)

    def root(self, leaf: records.NativePodGroup) -> Root:
        """What is above a PodGroup that names a parent."""
        if self.is_divided:
            return _without_root(_DIVIDED)
        above = self.above(leaf)
        highest = leaf if not above else self._composites[above[-1]][0]
        parent = highest.spec.parent_composite_pod_group_name
        if not self.is_served:
            return _without_root(f"{_FIELD}: CompositePodGroup {parent} is not served by this scheduler; leave the field empty")
        if not parent:
            return Root(above[-1])
        if (leaf.metadata.namespace, parent) in above:
            return _without_root(f"{_FIELD}: CompositePodGroup {parent} is above itself", is_layout=True)
        return _without_root(f"{_FIELD}: CompositePodGroup {parent} does not exist")

    def above(self, leaf: records.NativePodGroup) -> list[_Key]:
        """The CompositePodGroups above a PodGroup, as far as they are there, the lowest first."""
        found: list[_Key] = []
        key = leaf.metadata.namespace, leaf.spec.parent_composite_pod_group_name
        while key in self._composites and key not in found:
            found.append(key)
            key = key[0], self._composites[key][0].spec.parent_composite_pod_group_name
        return found

    def obstacle_above(self, key: _Key) -> Hold | None:
        """Why nothing below a CompositePodGroup may be placed; None if there is nothing in the way, or nothing below it."""
        leaves = self.leaves_below(key)
        return self.root(self._leaves[leaves[0]][0]).obstacle if leaves else None

    def top(self, key: _Key) -> _Key:
        """The highest CompositePodGroup above one, as far as they are there; itself without a parent."""
        seen = {key}
        while (found := self._composites.get(key)) is not None:
            above = key[0], found[0].spec.parent_composite_pod_group_name
            if not above[1] or above in seen:
                return key
            seen.add(above)
            key = above
        return key

    def leaves_below(self, key: _Key) -> list[_Key]:
        """The PodGroups below a CompositePodGroup, also one that is not there."""
        found: list[_Key] = []
        waiting, seen = [key], {key}
        while waiting:
            each = waiting.pop()
            found += self._leaves_below.get(each, ())
            below = [below for below in self._composites_below.get(each, ()) if below not in seen]
            waiting += below
            seen.update(below)
        return found

    def node(self, key: _Key) -> Node:
        """A CompositePodGroup that is a root, with all that is below it, older ones first."""
        record, kind = self._composites[key]
        below: list[Child] = [self.node(each) for each in self._composites_below.get(key, ())]
        below += [Leaf(*self._leaves[each]) for each in self._leaves_below.get(key, ())]
        below.sort(key=lambda each: (each.record.metadata.creation_timestamp or "", each.name))
        return Node(record, kind, tuple(below))

    def composite(self, key: _Key) -> records.CompositePodGroup | None:
        """The CompositePodGroup of that namespace and name."""
        found = self._composites.get(key)
        return None if found is None else found[0]

    def alone(self, key: _Key) -> Node:
        """A CompositePodGroup without what is below it."""
        return Node(*self._composites[key])

    def records(self) -> Iterator[records.CompositePodGroup]:
        """All CompositePodGroups."""
        return (record for record, _ in self._composites.values())


def _without_root(text: str, *, is_layout: bool = False) -> Root:
    return Root(None, Hold(PendingReason.LEFT_OUT, text, is_error=is_layout, is_layout=is_layout))


def _link(below: dict[_Key, dict[_Key, None]], key: _Key, parent: str) -> None:
    if parent:
        below.setdefault((key[0], parent), {})[key] = None


def _unlink(below: dict[_Key, dict[_Key, None]], key: _Key, parent: str) -> None:
    found: Mapping[_Key, None] | None = below.get((key[0], parent))
    if found is not None and key in found:
        del below[key[0], parent][key]
        if not found:
            del below[key[0], parent]
