"""Gangs that started and lost members: whether a gang lacks members, and the pods whose places are kept for replacements.

A member that is gone is not seen by a session, but its room is. The obvious way leaves the room to whoever asks first; the gang
then holds everything else for as long as that other job runs. The room is therefore kept until the replacement exists, which then
goes first. The replacement asks for the same as the lost pod, so that the lost pod stands in for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.model.resource_sums import Tally
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskFacts, TaskStatus

_GONE = frozenset({TaskStatus.RELEASING, TaskStatus.FAILED})
_STARTED = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING})


def lacks_members(group: Group, tally: Tally) -> bool:
    """Whether some members of a gang are allocated, but fewer than its minimum."""
    has_some = any(tally[status] for status in ALLOCATED)
    return has_some and tally.ready + tally.pending_best_effort < group.spec.min_member


def has_lost_members(group: Group, tally: Tally) -> bool:
    """Whether a gang that started, and was therefore let in once, lacks members."""
    return group.status.phase in _STARTED and lacks_members(group, tally)


def lost_members(group: Group, tally: Tally, tasks: Sequence[TaskFacts], departed: Iterable[TaskFacts]) -> tuple[TaskFacts, ...]:
    """Return one pod for each member that a gang lacks and that has no replacement yet.

    Pods that are being deleted or failed come first, then those that are gone, the last one first. After a restart of the
    scheduler, departed pods are unknown. Living members of a role that lacks some are then used instead.

    Args:
        group: the gang.
        tally: the number of its tasks in each status.
        tasks: its tasks.
        departed: the tasks of deleted pods that had a node, in the order of their deletion.
    """
    missing = group.spec.min_member - tally.valid
    if missing <= 0 or not has_lost_members(group, tally):
        return ()
    names = {task.name for task in tasks}
    going = (task for task in tasks if task.status in _GONE and task.node)
    gone = reversed([task for task in departed if task.name not in names])
    found: dict[str, TaskFacts] = {}
    for task in chain(going, gone):
        if len(found) == missing:
            break
        found.setdefault(task.name, task)
    members = [*found.values()]
    known = Counter(task.role for task in members)
    for role, least in group.spec.min_task_member.items():
        sibling = next((task for task in tasks if task.role == role and task.status in ALLOCATED), None)
        count = min(least - tally.role_valid(role) - known[role], missing - len(members))
        members += [sibling] * count if sibling is not None else []
    return tuple(members)
