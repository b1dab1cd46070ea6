"""The reader of CompositePodGroups (`scheduling.k8s.io`): a tree of PodGroups is one group, and each PodGroup is a part of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from pyroclast.api import records
from pyroclast.api.enums import PodGroupConditionType, PodGroupPhase
from pyroclast.api.types import COMPOSITE_POD_GROUPS, ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import (
    Group,
    GroupCondition,
    GroupPart,
    GroupStatus,
    Hold,
    claims_of,
    goes_whole,
    topology_key,
)
from pyroclast_scheduler.cache.group_readers import native
from pyroclast_scheduler.cache.group_readers.native import Members, QueueSources, Quorum
from pyroclast_scheduler.model.dimensions import summed
from pyroclast_scheduler.model.tasks import SCHEDULED, TaskFacts

_SUFFIX: Final = f"@{COMPOSITE_POD_GROUPS.qualified}"
_STARTED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})
_MOST_LEVELS: Final = 4
"""The largest depth of a tree, including the PodGroups, as for the templates of a Workload."""
DEEPEST: Final = 16
"""The number of levels to which a tree that is too deep is read, so that no function calls itself more often."""

_INCOMPLETE: Final = 1 << 40  # more pods than any group has


@dataclass(frozen=True, slots=True)
class Node:
    """A CompositePodGroup and the groups that name it as their parent. `kind`: the resource type of the object."""

    record: records.CompositePodGroup
    kind: ResourceType
    children: tuple[Child, ...] = ()

    @property
    def name(self) -> str:
        """The name of the part of the group that this object describes."""
        return f"{self.kind.kind} {self.record.metadata.name}"

    def whole(self) -> Iterator[Child]:
        """Yield this CompositePodGroup, and all CompositePodGroups and PodGroups below it."""
        yield self
        for child in self.children:
            yield from child.whole()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A PodGroup whose parent is a CompositePodGroup. `kind`: the resource type of the object."""

    record: records.NativePodGroup
    kind: ResourceType

    @property
    def name(self) -> str:
        """The name of the part of the group that this object describes."""
        return part_name(self.record.metadata.name)

    def whole(self) -> Iterator[Child]:
        """Yield this PodGroup."""
        yield self


Child: TypeAlias = Node | Leaf


def part_name(pod_group: str) -> str:
    """Return the name of the part for the PodGroup `pod_group`."""
    return f"PodGroup {pod_group}"


def composite_key(namespace: str, name: str) -> str:
    """Return the key of the group that a CompositePodGroup describes. No PodGroup of either API can have such a key."""
    return f"{namespace}/{name}{_SUFFIX}"


def slot_of(key: str) -> tuple[str, str] | None:
    """Return namespace and name of the CompositePodGroup with this key; None if it is the key of another kind of group."""
    namespace, _, name = key.removesuffix(_SUFFIX).partition("/")
    return (namespace, name) if key.endswith(_SUFFIX) else None


def read(root: Node, members: Members, *, names: Collection[str], queues: QueueSources) -> tuple[Group | None, bool]:
    """Return the group that `root` describes with these members, and whether time alone may change it.

    Return None if this scheduler places none of the members. `names`: the names of this scheduler.
    """
    if not native.is_ours(members.tasks, names):
        return None, False
    quorums = _quorums(root, members.tasks, members.settled_seconds)
    living = [task for each in quorums.values() for task in each.living]
    tree, meta = _part(root, quorums), root.record.metadata

    def cost(part: GroupPart) -> int:
        found = quorums.get(part.name)  # a CompositePodGroup without children has none
        return found.needed if found is not None and found.is_there else _INCOMPLETE

    needed = tree.cheapest(cost)
    hold = _misfit(root) or native.mismatch(root.record.spec.priority, living, members.elsewhere) or native.gated(living)
    if hold is None and (lacking := _lacking(root, quorums)):
        hold = Hold(PendingReason.PODS_MISSING, lacking)
    group = native.build(
        root.record,
        [each.record.metadata for each in root.whole()],
        members,
        living,
        kind=root.kind,
        queues=queues,
        key=composite_key(meta.namespace, meta.name),
        min_member=sum(part.minimum for part in needed),
        member_resources=summed(quorums[part.name].amounts for part in needed) if hold is None else None,
        hold=hold,
        tree=tree,
    )
    return group, any(each.is_timed for each in quorums.values())


def shown(node: Child, group: Group, tasks: Sequence[TaskFacts]) -> Group:
    """Return the group with the status to be written to the object of `node`, the root of `group` or a descendant.

    `tasks`: the tasks of the group.
    """
    tree, status = group.spec.tree, group.status
    part = None if tree is None else next((each for path in tree.paths() for each in path if each.name == node.name), None)
    if part is not None and has_part_started(part, tasks):
        status = msgspec.structs.replace(status, phase=PodGroupPhase.RUNNING)
    elif status.phase in _STARTED:
        lacking = _lacking(node, _quorums(node, tasks, 0.0))
        code = PendingReason.PODS_MISSING if lacking else PendingReason.NODES_FULL
        text = lacking or f"not now: the pods of {node.name} have no room; the rest of its group has started"
        status = _waiting(status, PodGroupPhase.INQUEUE, f"{code}: {text}")
    return _on_object(node, group, status)


def held(node: Node, group: Group, hold: Hold) -> Group:
    """Return the group with the status to be written to a CompositePodGroup below which no pod can be placed.

    `group`: a group below the CompositePodGroup. `hold`: the reason.
    """
    status = _waiting(group.status, PodGroupPhase.PENDING, f"{hold.reason}: {hold.text}")
    return _on_object(node, msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, hold=hold)), status)


def _waiting(status: GroupStatus, phase: PodGroupPhase, message: str) -> GroupStatus:
    waits = GroupCondition(type=PodGroupConditionType.UNSCHEDULABLE, status="True", message=message)
    return msgspec.structs.replace(status, phase=phase, conditions=(waits,))


def _on_object(node: Child, group: Group, status: GroupStatus) -> Group:
    record = node.record
    return msgspec.structs.replace(group, kind=node.kind, metadata=record.metadata, said=record.status.conditions, status=status)


def _quorums(node: Child, tasks: Sequence[TaskFacts], settled: float) -> dict[str, Quorum]:
    """Return the quorum of each PodGroup of `node`, by name of the part."""
    by_part: dict[str, list[TaskFacts]] = {}
    for task in tasks:
        by_part.setdefault(task.part, []).append(task)
    leaves = [each for each in node.whole() if isinstance(each, Leaf)]
    return {each.name: native.quorum(each.record, by_part.get(each.name, ()), settled) for each in leaves}


def has_part_started(part: GroupPart, tasks: Sequence[TaskFacts]) -> bool:
    """Whether enough pods of `part` have or had nodes for its minimum, and for the minimums of the parts below it."""
    least = {path[-1].name: path[-1].minimum for path in part.paths()}
    counts = dict.fromkeys(least, 0)
    for task in tasks:
        if task.part in counts and task.status in SCHEDULED:
            counts[task.part] += 1
    return part.is_ready(lambda name: counts[name] >= least[name])


def _misfit(root: Node) -> Hold | None:
    """Return why Kubernetes would call the layout of the tree invalid; None if it is valid."""
    depth = _depth(root)
    if depth > _MOST_LEVELS:
        levels = str(depth) if depth <= DEEPEST else f"more than {DEEPEST}"
        text = f"the groups below {root.name} have {levels} levels with it; at most {_MOST_LEVELS} are expected"
        return Hold(PendingReason.LEFT_OUT, text, is_error=True, is_layout=True)
    wanted = _workload(root)
    for node in root.whole():
        if (named := _workload(node)) != wanted:
            text = f"{node.name}: spec.workloadRef.workloadName: {named}; {wanted} is expected, as {root.name} says"
            return Hold(PendingReason.LEFT_OUT, text, is_error=True, is_layout=True)
    return None


def _workload(node: Child) -> str:
    named = node.record.spec.workload_ref
    return "" if named is None else named.workload_name


def _depth(node: Child) -> int:
    return 1 + max(map(_depth, node.children), default=0) if isinstance(node, Node) else 1


def _part(node: Child, quorums: Mapping[str, Quorum]) -> GroupPart:
    spec, meta = node.record.spec, node.record.metadata
    part = GroupPart(name=node.name, topology_key=topology_key(spec), evicts_whole=goes_whole(spec))
    if isinstance(node, Leaf):
        consumer = {"apiGroup": node.kind.group, "resource": node.kind.plural, "name": meta.name, "uid": meta.uid}
        return msgspec.structs.replace(
            part, minimum=quorums[node.name].minimum, claims=claims_of(node.record.spec), consumer=consumer
        )
    parts = tuple(_part(each, quorums) for each in node.children)
    return msgspec.structs.replace(part, minimum=_minimum(node), parts=parts)


def _minimum(node: Node) -> int:
    gang = node.record.spec.scheduling_policy.gang
    return 1 if gang is None else gang.min_group_count


def _lacking(node: Child, quorums: Mapping[str, Quorum]) -> str:
    """Return which pods of the minimum of `node` do not exist yet, as text; empty if none is missing."""
    if isinstance(node, Leaf):
        found = quorums[node.name]
        return "" if found.is_there else f"{node.name}: {found.text}"
    lacking = [text for each in node.children if (text := _lacking(each, quorums))]
    complete, least = len(node.children) - len(lacking), _minimum(node)
    if complete >= least:
        return ""
    if len(node.children) < least:
        return f"{node.name}: {len(node.children)} of {least} groups are there"
    return f"{node.name}: {complete} of {least} groups are complete; {lacking[0]}"
