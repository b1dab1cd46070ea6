"""PodGroups of the Kubernetes API as sources of groups, with the Jobs and Namespaces that name their queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pyroclast.api import records
from pyroclast.api.types import COMPOSITE_POD_GROUPS, JOBS, NATIVE_POD_GROUPS, ResourceType
from pyroclast.lifecycle.gang.groups import Group, has_started, is_protected
from pyroclast_scheduler.cache.changes import same_but_version
from pyroclast_scheduler.cache.group_readers import composite, native
from pyroclast_scheduler.cache.group_readers.composite import composite_key, part_name
from pyroclast_scheduler.cache.group_readers.native import QueueSources, job_of
from pyroclast_scheduler.cache.group_trees import GroupTrees
from pyroclast_scheduler.cache.job_entries import Entry
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.objects import is_older
from pyroclast_scheduler.model.tasks import TaskFacts, native_key


class _Described(Protocol):
    """A callback: another object describes a group, or the object changed."""

    def __call__(self, key: str, *, has_gone: bool) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """One PodGroup as a `Source`."""

    record: records.NativePodGroup
    kind: ResourceType
    groups: NativeGroups

    @property
    def uid(self) -> str:
        return self.record.metadata.uid

    @property
    def parent(self) -> str:
        """The name of the parent CompositePodGroup; empty if there is none."""
        return self.record.spec.parent_composite_pod_group_name

    def read(self, entry: Entry) -> tuple[Group | None, bool]:
        groups, obstacle = self.groups, self.groups.trees.root(self.record).obstacle if self.parent else None
        members, kind = groups.members(entry), self.kind
        return native.read(self.record, members, kind=kind, names=groups.names, queues=groups.queues, obstacle=obstacle)


@dataclass(frozen=True, slots=True, eq=False)
class _TreeSource:
    """A CompositePodGroup without a parent, with all its descendants, as a `Source`."""

    slot: tuple[str, str]
    uid: str
    groups: NativeGroups

    def read(self, entry: Entry) -> tuple[Group | None, bool]:
        groups = self.groups
        return composite.read(groups.trees.node(self.slot), groups.members(entry), names=groups.names, queues=groups.queues)


class NativeGroups:
    """Passes PodGroups of the Kubernetes API to the table of jobs, and reports changes through `described`.

    `roots`: see `JobTable`. `retake`: sets a pod again that moved to another group.
    """

    def __init__(
        self,
        jobs: JobTable,
        names: Collection[str],
        roots: dict[str, str],
        *,
        now: Callable[[], float],
        described: _Described,
        retake: Callable[[records.Pod], object],
    ) -> None:
        self.queues = QueueSources()
        self.trees = GroupTrees()
        self.names = names
        self._now = now
        self._jobs = jobs
        self._described = described
        self._retake = retake
        self._sources: dict[str, _Source] = {}
        self._of_job: dict[str, set[str]] = {}
        self._of_namespace: dict[str, set[str]] = {}
        self._of_gang: dict[str, _Source] = {}
        self._root_of = roots

    # -- events ------------------------------------------------------------------------------------------------------

    def group_changed(
        self, old: records.NativePodGroup | None, new: records.NativePodGroup | None, kind: ResourceType = NATIVE_POD_GROUPS
    ) -> None:
        """Handle that a PodGroup was created, changed or deleted. `kind`: its resource type."""
        record = new or old
        if record is None:
            return
        key = native_key(record.metadata.namespace, record.metadata.name)
        before = self._sources.get(key)
        if new is not None and before is not None and is_older(new, before.record):
            return
        if before is not None:
            self._index(key, before, is_there=False)
        self._mirror(before, new, kind)
        self.trees.leaf_changed((record.metadata.namespace, record.metadata.name), new, kind)
        if new is None:
            self._follow(key)
            if before is not None:
                self._jobs.describe(key, None)
                self._described(key, has_gone=True)
            return
        source = self._sources[key] = _Source(new, kind, self)
        self._index(key, source, is_there=True)
        is_alike = before is not None and _reads_alike(before.record, new)
        self._follow(key, has_changed=not is_alike)
        if key in self._root_of:
            return
        if is_alike:
            self._jobs.rewrite(key, source, new.metadata, new.status.conditions)
            return
        self._jobs.describe(key, source)
        self._described(key, has_gone=before is not None and before.uid != source.uid)

    def composite_changed(
        self,
        old: records.CompositePodGroup | None,
        new: records.CompositePodGroup | None,
        kind: ResourceType = COMPOSITE_POD_GROUPS,
    ) -> None:
        """Handle that a CompositePodGroup was created, changed or deleted. `kind`: its resource type."""
        record = new or old
        if record is None:
            return
        slot = record.metadata.namespace, record.metadata.name
        key, known, above = composite_key(*slot), self.trees.composite(slot), self.trees.top(slot)
        if not self.trees.composite_changed(slot, new, kind):
            return
        source = None
        if new is not None and not new.spec.parent_composite_pod_group_name and not self.trees.is_divided:
            source = _TreeSource(slot, new.metadata.uid, self)
        if new is not None and known is not None and _reads_alike(known, new):
            if source is not None:
                self._jobs.rewrite(key, source, new.metadata, new.status.conditions)
            return
        if source is not None or key in self._jobs.entries:
            self._jobs.describe(key, source)
            self._described(key, has_gone=known is not None and (new is None or new.metadata.uid != known.metadata.uid))
        for namespace, name in self.trees.leaves_below(slot):
            leaf = native_key(namespace, name)
            self._follow(leaf)
            if leaf not in self._root_of:
                self._jobs.describe(leaf, self._sources[leaf])  # its hold names the missing parent now
                self._described(leaf, has_gone=False)
        self._reread({composite_key(*each) for each in (above, self.trees.top(slot)) if self.trees.composite(each) is not None})

    def composites_served(self) -> None:
        """Handle that CompositePodGroups are watched from now on, so that a missing parent is reported as missing."""
        self.trees.is_served = True
        for key, source in self._sources.items():
            if source.parent and key not in self._root_of:
                self._jobs.describe(key, source)
                self._described(key, has_gone=False)

    def job_changed(self, old: records.ObjectRecord | None, new: records.ObjectRecord | None) -> None:
        """Handle that a batch/v1 Job, which may name the queue of a group, was created, changed or deleted."""
        uid = self.queues.job_changed(*(None if each is None else each.metadata for each in (old, new)))
        if uid:
            self._reread(self._of_job.get(uid, set()) | self._of_job.get("", set()))

    def namespace_changed(self, old: records.Namespace | None, new: records.Namespace | None) -> None:
        """Handle that a Namespace, which may name the queue of its groups, was created, changed or deleted."""
        name = self.queues.namespace_changed(*(None if each is None else each.metadata for each in (old, new)))
        self._reread(self._of_namespace.get(name, set()))

    # -- membership --------------------------------------------------------------------------------------------------

    def members(self, entry: Entry) -> native.Members:
        """Return the pods of a job in the form that the readers of groups use."""
        elsewhere = sorted({each.scheduler for each in entry.strangers.values()})
        queue = "" if entry.group is None else entry.group.spec.queue
        return native.Members(tuple(entry.tasks.values()), elsewhere, self._now() - entry.joined, queue)

    def belongs_to(self, group: str) -> str:
        """Return the key of the job to which the pods of a group belong. For a group in a tree, this is the key of the root."""
        return self._root_of.get(group, group)

    def explained_by(self, key: str) -> str:
        """Return the key of the job that explains a PodGroup or CompositePodGroup: the root above it.

        Without a root, it is a PodGroup below the CompositePodGroup, which waits alone.
        """
        slot = self._slot(key)
        if slot is None:
            return self.belongs_to(key)
        if self.trees.obstacle_above(slot) is None:
            return composite_key(*self.trees.top(slot))
        below = (native_key(*each) for each in self.trees.leaves_below(slot))
        return next((each for each in below if self._jobs.facts(each) is not None), key)

    def guarded(self, task: TaskFacts) -> TaskFacts:
        """Return the task as a member of its job. A pod that another scheduler places is not preemptable for this one."""
        spec, root = task.pod.spec, self._root_of.get(task.job)
        if root is not None and spec.scheduling_group is not None:
            is_preemptable = task.is_preemptable and not is_protected(self._sources[task.job].record.metadata)
            part = part_name(spec.scheduling_group.pod_group_name)
            task = msgspec.structs.replace(task, job=root, part=part, is_preemptable=is_preemptable)
        if task.is_preemptable and spec.scheduling_group is not None and spec.scheduler_name not in self.names:
            return msgspec.structs.replace(task, is_preemptable=False)
        return task

    def _follow(self, key: str, *, has_changed: bool = False) -> None:
        """Move the pods of a PodGroup to the root above it, or to the PodGroup itself if there is no root."""
        source, before = self._sources.get(key), self._root_of.get(key, "")
        root = self.trees.root(source.record).key if source is not None and source.parent else None
        after = "" if root is None else composite_key(*root)
        if after:
            self._root_of[key] = after
        else:
            self._root_of.pop(key, None)
        if before != after:
            self._jobs.move_strangers(key, before or key, after or key)
            entry = self._jobs.entries.get(before or key)
            for pod in [] if entry is None else [task.pod for task in entry.tasks.values() if _named(task.pod) == key]:
                self._retake(pod)
            if after and not before:  # it is no longer a group of its own
                self._jobs.describe(key, None)
                self._described(key, has_gone=True)
        if before != after or has_changed:
            self._reread([each for each in {before, after} if each and each in self._jobs.entries])

    # -- conditions --------------------------------------------------------------------------------------------------

    def mirrors(self, key: str) -> bool:
        """Whether conditions of other objects show the state too: of the PodGroup of a Job's gang, or of the groups in a tree."""
        if key in self._of_gang or self._above(key):
            return True
        return self._tree(key) is not None

    def told_of(self, key: str) -> list[str]:
        """Return the keys of the objects, see `shown`, whose conditions show the state of group `key`."""
        tree = self._tree(key)
        return [key, *self._above(key)] if tree is None else _keys_of(tree)

    def _above(self, key: str) -> list[str]:
        """Return the keys of the CompositePodGroups above a PodGroup without a root, which determines their conditions."""
        source = self._sources.get(key)
        if source is None or not source.parent or key in self._root_of:
            return []
        return [composite_key(*each) for each in self.trees.above(source.record)]

    def gone_whole(self, task: TaskFacts) -> list[str]:
        """Return the keys of the PodGroups that lose all pods when `task` is evicted, by their disruption mode."""
        group = self._jobs.current(task.job)
        if group is None or group.keeps_phase:
            return []
        tree = self._tree(task.job)
        if group.spec.tree is None or tree is None:
            return [task.job] if group.spec.evicts_whole else []
        path = next((path for path in group.spec.tree.paths() if path[-1].name == task.part), ())
        unit = next((part.name for part in path if part.evicts_whole), None)
        return next((_keys_of(node) for node in tree.whole() if node.name == unit), [])

    def shown(self, key: str) -> Group | None:
        """Return the group with the metadata of the object whose conditions show its state; None if there is no such object.

        If a Volcano PodGroup describes the group, only conditions are written to the object of the Kubernetes API. For a
        PodGroup in a tree, the returned group has the state of that part of the tree.
        """
        group = self._jobs.current(key)
        if group is None or not group.keeps_phase:
            return self._part_shown(key) or group or self._held(key)
        return self._mirror_of(key, group)

    def without_pods(self, key: str) -> Group | None:
        """Return the object with the given key as a group without pods; None if there is no such object."""
        slot = self._slot(key)
        described = self._sources.get(key) if slot is None else self.trees.alone(slot)
        if described is None:
            return None
        record = described.record
        return Group(kind=described.kind, key=key, metadata=record.metadata, said=record.status.conditions, keeps_phase=False)

    def _part_shown(self, key: str) -> Group | None:
        """Return the group with the state of a part of a tree; None if the key is no part of the tree of a job."""
        slot = self._slot(key)
        root = self._root_of.get(key, key) if slot is None else composite_key(*self.trees.top(slot))
        entry, tree = self._jobs.entries.get(root), self._tree(root)
        group = None if entry is None else entry.current
        if entry is None or group is None or group.spec.tree is None or tree is None:
            return None
        node = next((each for each in tree.whole() if _key_of(each) == key), None)
        return None if node is None else composite.shown(node, group, tuple(entry.tasks.values()))

    def _held(self, key: str) -> Group | None:
        """Return a CompositePodGroup with PodGroups of this scheduler if no pod below it can be placed, else None."""
        slot = self._slot(key)
        if slot is None:
            return None
        hold = self.trees.obstacle_above(slot)
        entries = (self._jobs.entries.get(native_key(*each)) for each in self.trees.leaves_below(slot))
        group = next((entry.group for entry in entries if entry is not None and entry.group is not None), None)
        return None if hold is None or group is None else composite.held(self.trees.alone(slot), group, hold)

    def _slot(self, key: str) -> tuple[str, str] | None:
        """Return namespace and name of the CompositePodGroup with that key; None if no such object exists."""
        slot = composite.slot_of(key)
        return None if slot is None or self.trees.composite(slot) is None else slot

    def _tree(self, key: str) -> composite.Node | None:
        """Return the tree from which the group of a job is read; None if it is read from one object."""
        entry = self._jobs.entries.get(key)
        source = None if entry is None else entry.source
        return self.trees.node(source.slot) if isinstance(source, _TreeSource) else None

    def _mirror_of(self, key: str, group: Group) -> Group | None:
        source, owner = self._of_gang.get(key), group.metadata.controller
        shown = None if source is None else source.record.metadata.controller
        if source is None or shown is None or owner is None or owner.uid != shown.uid:
            return None
        record = source.record
        return msgspec.structs.replace(
            group, kind=source.kind, metadata=record.metadata, said=record.status.conditions, keeps_phase=False
        )

    def _mirror(self, before: _Source | None, new: records.NativePodGroup | None, kind: ResourceType) -> None:
        """Record whether a PodGroup of the Kubernetes API shows the gang of a Job, whose state its conditions then get."""
        record = new or (None if before is None else before.record)
        owner = None if record is None else record.metadata.controller
        if record is None or owner is None or (owner.kind, owner.api_version) != (JOBS.kind, JOBS.api_version):
            return
        key = str(record.metadata.key)
        if new is None:
            self._of_gang.pop(key, None)
            return
        self._of_gang[key] = _Source(new, kind, self)
        if (before is None or before.uid != new.metadata.uid) and key in self._jobs.entries:
            self._jobs.retry([key])
            self._described(key, has_gone=False)

    def _reread(self, keys: Collection[str]) -> None:
        for key in {self.belongs_to(each) for each in keys}:
            self._jobs.entry(key)
            self._described(key, has_gone=False)

    def _index(self, key: str, source: _Source, *, is_there: bool) -> None:
        meta = source.record.metadata
        for index, value in ((self._of_job, job_of(meta)), (self._of_namespace, meta.namespace)):
            if is_there:
                index.setdefault(value, set()).add(key)
            else:
                index[value].discard(key)
                if not index[value]:
                    del index[value]
        if not is_there:
            del self._sources[key]

    def records(self) -> Iterator[records.NativePodGroup]:
        """Return all PodGroups."""
        return (source.record for source in self._sources.values())


def _keys_of(node: composite.Child) -> list[str]:
    return [_key_of(each) for each in node.whole()]


def _key_of(node: composite.Child) -> str:
    meta = node.record.metadata
    return (composite_key if isinstance(node, composite.Node) else native_key)(meta.namespace, meta.name)


def _named(pod: records.Pod) -> str:
    """Return the key of the PodGroup of the Kubernetes API that a pod names; empty if the pod names none."""
    group = pod.spec.scheduling_group
    return "" if group is None else native_key(pod.metadata.namespace, group.pod_group_name)


def _reads_alike(
    old: records.NativePodGroup | records.CompositePodGroup, new: records.NativePodGroup | records.CompositePodGroup
) -> bool:
    """Whether two objects differ at most in their version and in the fields of the status that schedulers write."""
    if old.spec != new.spec or has_started(old) != has_started(new):
        return False
    return same_but_version(old, msgspec.structs.replace(new, status=old.status))
