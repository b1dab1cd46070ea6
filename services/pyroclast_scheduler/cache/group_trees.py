"""The trees of PodGroups and CompositePodGroups of the Kubernetes API, by the parents that these name.

Only the thread of the cache may use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from pyroclast.api import records
from pyroclast.api.types import ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import Hold
from pyroclast_scheduler.cache.group_readers.composite import DEEPEST, Child, Leaf, Node
from pyroclast_scheduler.cache.objects import is_older

_Key = tuple[str, str]  # namespace and name
_FIELD: Final = "spec.parentCompositePodGroupName"
_DIVIDED: Final = "schedulers that share Jobs by a hash do not serve CompositePodGroups"


class Root(NamedTuple):
    """The highest CompositePodGroup above a PodGroup. `key`: None if there is none; `obstacle`: why no pod may be placed then."""

    key: _Key | None
    obstacle: Hold | None = None


_Record = TypeVar("_Record", records.NativePodGroup, records.CompositePodGroup)


class _Level(Generic[_Record]):
    """The objects of one kind by key, and by key of the parent that they name."""

    def __init__(self) -> None:
        self.rows: dict[_Key, tuple[_Record, ResourceType]] = {}
        self.below: dict[_Key, dict[_Key, None]] = {}

    def put(self, key: _Key, record: _Record | None, kind: ResourceType) -> None:
        """Replace an object by `record`; None if it was deleted."""
        known = self.rows.pop(key, None)
        if known is not None:
            parent = key[0], known[0].spec.parent_composite_pod_group_name
            siblings = self.below.get(parent, {})
            siblings.pop(key, None)
            if not siblings:
                self.below.pop(parent, None)
        if record is not None:
            self.rows[key] = record, kind
            if record.spec.parent_composite_pod_group_name:
                self.below.setdefault((key[0], record.spec.parent_composite_pod_group_name), {})[key] = None


class GroupTrees:
    """The CompositePodGroups, and the PodGroups that name a parent.

    `is_served`: whether the API server has them. `is_divided`: whether no scheduler has all pods of a tree.
    """

    def __init__(self) -> None:
        self.is_served = self.is_divided = False
        self._composites: _Level[records.CompositePodGroup] = _Level()
        self._leaves: _Level[records.NativePodGroup] = _Level()

    def composite_changed(self, key: _Key, record: records.CompositePodGroup | None, kind: ResourceType) -> bool:
        """Handle that a CompositePodGroup changed or was deleted (None). Return False if it is older than the known one."""
        self.is_served = True
        known = self._composites.rows.get(key)
        if known is not None and record is not None and is_older(record, known[0]):
            return False
        self._composites.put(key, record, kind)
        return True

    def leaf_changed(self, key: _Key, record: records.NativePodGroup | None, kind: ResourceType) -> None:
        """Handle that a PodGroup was created, changed or deleted (None)."""
        has_parent = record is not None and record.spec.parent_composite_pod_group_name
        self._leaves.put(key, record if has_parent else None, kind)

    def root(self, leaf: records.NativePodGroup) -> Root:
        """Return the root above a PodGroup that names a parent."""
        if self.is_divided:
            return _without_root(_DIVIDED)
        above = self.above(leaf)
        highest = leaf if not above else self._composites.rows[above[-1]][0]
        parent = highest.spec.parent_composite_pod_group_name
        if not self.is_served:
            return _without_root(f"{_FIELD}: CompositePodGroup {parent} is not served by this scheduler; leave the field empty")
        if not parent:
            return Root(above[-1])
        if (leaf.metadata.namespace, parent) in above:
            return _without_root(f"{_FIELD}: CompositePodGroup {parent} is above itself", is_layout=True)
        return _without_root(f"{_FIELD}: CompositePodGroup {parent} does not exist")

    def above(self, leaf: records.NativePodGroup) -> list[_Key]:
        """Return the existing CompositePodGroups above a PodGroup, the lowest first."""
        composites: dict[_Key, None] = {}
        key = leaf.metadata.namespace, leaf.spec.parent_composite_pod_group_name
        while key in self._composites.rows and key not in composites:
            composites[key] = None
            key = key[0], self._composites.rows[key][0].spec.parent_composite_pod_group_name
        return list(composites)

    def obstacle_above(self, key: _Key) -> Hold | None:
        """Return why no pod below a CompositePodGroup may be placed; None if there is no reason, or no PodGroup below it."""
        leaves = self.leaves_below(key)
        return self.root(self._leaves.rows[leaves[0]][0]).obstacle if leaves else None

    def top(self, key: _Key) -> _Key:
        """Return the highest existing CompositePodGroup above `key`, or `key` if it has no parent."""
        seen = {key}
        while (row := self._composites.rows.get(key)) is not None:
            above = key[0], row[0].spec.parent_composite_pod_group_name
            if not above[1] or above in seen:
                return key
            seen.add(above)
            key = above
        return key

    def leaves_below(self, key: _Key) -> list[_Key]:
        """Return the PodGroups below a CompositePodGroup, which need not exist."""
        return [leaf for each in self._with_below(key) for leaf in self._leaves.below.get(each, ())]

    def _with_below(self, key: _Key) -> list[_Key]:
        """Return a CompositePodGroup and all CompositePodGroups below it."""
        found = {key: None}
        waiting = [key]
        while waiting:
            below = [below for below in self._composites.below.get(waiting.pop(), ()) if below not in found]
            waiting += below
            found |= dict.fromkeys(below)
        return list(found)

    def node(self, key: _Key, levels: int = DEEPEST) -> Node:
        """Return the tree below a CompositePodGroup that is a root, with older groups first.

        Groups below `levels` levels are all children of the lowest level, because the tree is invalid then and is only reported.
        """
        record, kind = self._composites.rows[key]
        below: list[Child]
        if levels > 1:
            below = [self.node(each, levels - 1) for each in self._composites.below.get(key, ())]
            below += [Leaf(*self._leaves.rows[each]) for each in self._leaves.below.get(key, ())]
        else:
            below = [self.alone(each) for each in self._with_below(key)[1:]]
            below += [Leaf(*self._leaves.rows[each]) for each in self.leaves_below(key)]
        below.sort(key=lambda each: (each.record.metadata.creation_timestamp or "", each.name))
        return Node(record, kind, tuple(below))

    def composite(self, key: _Key) -> records.CompositePodGroup | None:
        """Return the CompositePodGroup of that namespace and name, None if it does not exist."""
        row = self._composites.rows.get(key)
        return None if row is None else row[0]

    def alone(self, key: _Key) -> Node:
        """Return a CompositePodGroup without its descendants."""
        return Node(*self._composites.rows[key])

    def records(self) -> Iterator[records.CompositePodGroup]:
        """Return all CompositePodGroups."""
        return (record for record, _ in self._composites.rows.values())


def _without_root(text: str, *, is_layout: bool = False) -> Root:
    return Root(None, Hold(PendingReason.LEFT_OUT, text, is_error=is_layout, is_layout=is_layout))
