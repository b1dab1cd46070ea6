"""The rows of native PodGroups and CompositePodGroups, and the outcomes that follow from their pods. Pure.

The PodGroups below a CompositePodGroup start together, so a whole tree is one run, like a Job.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, NativeConditionType, PodPhase
from pyroclast.api.records.meta import Meta, OwnerReference
from pyroclast.api.records.native_groups import CompositePodGroup, NativeCondition, NativePodGroup
from pyroclast.api.run_lengths import of_one_pod
from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast.api.waiting import Waiting, read_waiting
from pyroclast.lifecycle.gang.groups import named
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.facts.jobs import COMPLETE, FAILED, UNKNOWN_USER, alike_columns, kept_labels, prediction_row
from pyroclast_recorder.facts.pods import job_of
from pyroclast_recorder.facts.units import LARGEST, clipped, seconds
from pyroclast_recorder.hourly_usage import held

KIND: Final = NATIVE_POD_GROUPS.qualified
"""The value of the column `kind` in the rows of native PodGroups in `jobs`."""

_ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED})


class GroupEnd(NamedTuple):
    """The end of a group. `at`: the time of the end. `seconds`: the seconds from the start to the end."""

    queue: str
    phase: str
    at: int
    seconds: int


def native_facts(group: NativePodGroup, now: int, *, is_deleted: bool) -> dict[str, Any] | None:
    """Return the row of a native PodGroup in `jobs`, without the columns `cluster` and `version`.

    None for a PodGroup that shows a Volcano Job, because the Job has a row. None also when none of our schedulers has examined
    the PodGroup. `now`: seconds since the epoch.
    """
    meta, spec, queued = group.metadata, group.spec, _condition(group, NativeConditionType.QUEUED)
    if queued is None or job_of(group) is not None:
        return None
    waits, started = queued.status == "True", _started(group)
    gang, owner = spec.scheduling_policy.gang, meta.controller
    row: dict[str, Any] = {
        **_common_facts(group, now, is_deleted=is_deleted),
        "kind": KIND,
        "submitted_by": UNKNOWN_USER,
        "owner_kind": clipped(owner.kind, 63) if owner else None,
        "owner_uid": clipped(owner.uid, 63) if owner else None,
        "priority_class": clipped(spec.priority_class_name, 253) or None,
        "labels": kept_labels(meta),
        "reason": clipped(queued.reason, 128) if waits else None,
        "message": clipped(queued.message) or None if waits else None,
        "retries": 0,
        "gang_size": 1 if gang is None else gang.min_count,
        "let_in": started,
        "placed": started,
    }
    return {**row, **native_outcome(row, ())}


def composite_facts(group: CompositePodGroup, now: int, *, is_deleted: bool) -> dict[str, Any] | None:
    """Return the row of a CompositePodGroup like `native_facts`."""
    if _condition(group, NativeConditionType.QUEUED) is None:
        return None
    gang = group.spec.scheduling_policy.gang
    return {**_common_facts(group, now, is_deleted=is_deleted), "min_groups": 1 if gang is None else gang.min_group_count}


def _common_facts(group: NativePodGroup | CompositePodGroup, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """Return the columns that the tables `jobs` and `composites` share."""
    meta, owner, waiting = group.metadata, group.metadata.controller, _waiting(group)
    return {
        "uid": meta.uid,
        "namespace": meta.namespace,
        "name": meta.name,
        "parent": clipped(group.spec.parent_composite_pod_group_name, 253) or None,
        "queue": clipped(named(meta) or ("" if waiting is None else waiting.queue), 253) or None,
        "owner_name": clipped(owner.name, 253) if owner else None,
        "estimate": clipped(meta.annotations.get(keys.RUNNING_ESTIMATE, ""), 63) or None,
        "created": seconds(meta.creation_timestamp),
        "started": _started(group),
        "removed": seconds(meta.deletion_timestamp) or (now if is_deleted else None),
    }


def native_phases(group: NativePodGroup) -> Iterator[dict[str, Any]]:
    """Yield the rows of `job_phases` of a native PodGroup."""
    for name, at in ((JobPhase.PENDING, seconds(group.metadata.creation_timestamp)), (JobPhase.RUNNING, _started(group))):
        if at is not None:
            yield {"job": group.metadata.uid, "at": at, "name": str(name), "message": None}


def native_causes(group: NativePodGroup) -> Iterator[dict[str, Any]]:
    """Yield the row of `job_causes` with the cause for which a native PodGroup waits; nothing when it does not wait."""
    queued = _condition(group, NativeConditionType.QUEUED)
    if queued is not None and queued.status == "True" and (at := seconds(queued.last_transition_time)) is not None:
        name, message = clipped(queued.reason, 63), clipped(queued.message) or None
        yield {"job": group.metadata.uid, "at": at, "name": name, "message": message}


def native_prediction(group: NativePodGroup | CompositePodGroup) -> dict[str, Any] | None:
    """Return the row of `predictions` of a native group; None when it has no estimated start."""
    waiting = _waiting(group)
    return None if waiting is None else prediction_row(group.metadata.uid, waiting)


def native_outcome(group: Row, pods: Sequence[Row], job: Row | None = None) -> dict[str, Any]:
    """Return the columns `queue`, `requests`, `phase` and `ended`, which follow from the pods of a group and from its native Job.

    The condition of the Job determines whether an ended group has completed or failed. Without a Job, the group has completed
    when enough pods for its gang have succeeded. A pod of each index must have succeeded, and a succeeded pod must be the last.
    An ended group in phase Running lost its pods by deletion. `job`: the row of the native Job in `owners`; None when it is
    unknown.
    """
    times = [(pod, time) for pod in pods if (time := held(pod)) is not None]
    queue = min((pod["queue"] for pod, _ in times if pod["queue"]), default=group["queue"])
    found = {"queue": queue, "requests": _requests(pods)}
    has_pods = not times or any(pod["released_high"] is None for pod in pods)
    if has_pods or (_makes_pods(job) and group["removed"] is None):
        waits = group["reason"] is not None or group["placed"] is None
        return {**found, "phase": str(JobPhase.PENDING if waits else JobPhase.RUNNING), "ended": None}
    ended = _last(time.end or 0 for _, time in times)
    if job is not None and job["phase"] in {COMPLETE, FAILED}:
        phase = JobPhase.COMPLETED if job["phase"] == COMPLETE else JobPhase.FAILED
    elif _has_completed(group["gang_size"], [(pod, time.end or 0) for pod, time in times], ended):
        phase = JobPhase.COMPLETED
    elif group["removed"] is not None and ended >= group["removed"]:
        phase = JobPhase.RUNNING
    else:
        has_failed = any(pod["phase"] == PodPhase.FAILED for pod, _ in times)
        phase = JobPhase.FAILED if has_failed else JobPhase.RUNNING
    return {**found, "phase": str(phase), "ended": ended}


def group_end(before: Row | None, group: Row, pods: Iterable[Row]) -> GroupEnd | None:
    """Return the end of a group that had not ended in its earlier row `before`.

    None when the group has not ended, or was deleted before its end. If the status of the group does not report a start, the
    start of its first pod is used.
    """
    if group["phase"] not in _ENDED or (before is not None and before["phase"] in _ENDED):
        return None
    started, ended = group["started"], group["ended"]
    if started is None:
        started = min(time.begin for pod in pods if (time := held(pod)) is not None)
    return GroupEnd(group["queue"] or "", group["phase"], ended, max(0, ended - started))


def group_of(pod: Row, groups: Sequence[Row]) -> str | None:
    """Return the uid of the group to which a pod belongs; None when no group of its name was there while the pod was.

    That is the group that was there when the pod was created, or else the first one that came later. `groups`: the groups with
    the name that the pod names, in the order of their creation.
    """
    made = pod["created"] or pod["bound"] or 0
    later = bisect_right(groups, made, key=lambda group: group["created"] or 0)
    if later and ((gone := groups[later - 1]["removed"]) is None or gone >= made):
        return str(groups[later - 1]["uid"])
    end = pod["released_high"]
    if later < len(groups) and (end is None or groups[later]["created"] <= end):
        return str(groups[later]["uid"])
    return None


def native_alike(group: Row, pods: Sequence[Row]) -> dict[str, Any] | None:
    """Return the row of `job_alikes` of a group, without the columns `cluster` and `version`; None before the group has a pod.

    The keys and the estimate follow from the requests and the annotation of the oldest pod.
    """
    oldest = oldest_pod(pods)
    if oldest is None:
        return None
    alike = _alike(group, group["queue"], group["gang_size"], oldest)
    return {"job": group["uid"], **alike, "estimate": oldest["estimate"], "at": group["created"]}


def _alike(row: Row, queue: str | None, members: int, oldest: Row) -> dict[str, str]:
    """Return the columns of similar groups. `oldest`: the row of the oldest pod, whose requests are used."""
    owners = (OwnerReference(name=row["owner_name"], controller=True),) if row["owner_name"] else ()
    meta, asked = Meta(name=row["name"], owner_references=owners), of_one_pod(orjson.loads(oldest["requests"]))
    return alike_columns(meta, row["namespace"], queue or "default", members, asked)


def oldest_pod(pods: Iterable[Row]) -> Row | None:
    """Return the oldest pod, whose data is used when its group has none; None without pods."""
    return min((pod for pod in pods if pod["requests"]), key=lambda pod: (pod["created"] or 0, pod["name"]), default=None)


def _requests(pods: Iterable[Row]) -> str | None:
    """Return the sum of the requests of the pods that have not ended, as JSON; None if all pods have ended."""
    there = [pod for pod in pods if pod["released_high"] is None and pod["requests"]]
    total: Counter[str] = Counter()
    for pod in there:
        total.update(orjson.loads(pod["requests"]))
    amounts = {name: min(amount, LARGEST) for name, amount in total.items()}
    return orjson.dumps(amounts, option=orjson.OPT_SORT_KEYS).decode() if there else None


def _makes_pods(job: Row | None) -> bool:
    """Whether a native Job may create further pods."""
    return job is not None and job["phase"] is None and job["removed"] is None


def _has_completed(needed: int, ends: Sequence[tuple[Row, int]], last: int) -> bool:
    """Whether enough pods of a group succeeded. `ends`: the pods and their ends. `last`: the end of the last pod."""
    succeeded = [(pod, end) for pod, end in ends if pod["phase"] == PodPhase.SUCCEEDED]
    is_whole = {pod["task_index"] for pod, _ in ends} == {pod["task_index"] for pod, _ in succeeded}
    return is_whole and len(succeeded) >= needed and _last(end for _, end in succeeded) == last


def _condition(group: NativePodGroup | CompositePodGroup, kind: NativeConditionType) -> NativeCondition | None:
    """Return the condition of type `kind` of a group; None when there is none."""
    return next((each for each in group.status.conditions if each.type == kind), None)


def _waiting(group: NativePodGroup | CompositePodGroup) -> Waiting | None:
    """Return the waiting that the condition of a group reports; None without a valid condition."""
    said = _condition(group, NativeConditionType.WAITING)
    return None if said is None else read_waiting(said.message)


def _last(times: Iterable[int]) -> int:
    return max(times, default=0)


def _started(group: NativePodGroup | CompositePodGroup) -> int | None:
    """Return the time at which the minimum of the group was scheduled; None before that."""
    types = (NativeConditionType.INITIALLY_SCHEDULED, NativeConditionType.COMPOSITE_SCHEDULED)
    scheduled = next(filter(None, (_condition(group, each) for each in types)), None)
    return seconds(scheduled.last_transition_time) if scheduled is not None and scheduled.status == "True" else None


@dataclass(frozen=True, slots=True)
class Tree:
    """The rows of a CompositePodGroup without a parent and of all objects below it.

    `composites` and `groups`: the rows of CompositePodGroups and PodGroups, by the uid of their parent. `pods`: the rows of pods,
    by the uid of their PodGroup.
    """

    root: Row
    composites: Mapping[str, Sequence[Row]]
    groups: Mapping[str, Sequence[Row]]
    pods: Mapping[str, Sequence[Row]]

    def leaves(self, above: str) -> Iterator[Row]:
        """Yield the rows of the PodGroups below the CompositePodGroup with the uid `above`, on all levels."""
        yield from self.groups.get(above, ())
        for each in self.composites.get(above, ()):
            yield from self.leaves(each["uid"])


def tree_run(tree: Tree) -> dict[str, Any]:
    """Return the columns of the root that its tree determines.

    `phase` and `ended`: the tree has ended when each PodGroup with pods has ended, and has failed when one of these PodGroups has
    failed. An ended tree in phase Running lost pods by deletion. `queue`: the queue of the pods. `alike` and `owner`: the keys of
    similar trees, like those of a Job. `declared`: the estimate of the oldest pod.
    """
    root = tree.root
    leaves = list(tree.leaves(root["uid"]))
    pods = [pod for leaf in leaves for pod in tree.pods.get(leaf["uid"], ())]
    queue = min((pod["queue"] for pod in pods if pod["queue"] and held(pod) is not None), default=root["queue"])
    run: dict[str, Any] = {**_outcome(tree, leaves), "queue": queue, "alike": None, "owner": None, "declared": None}
    oldest = oldest_pod(pods)
    if oldest is None:
        return run
    return {**run, **_alike(root, queue, _cheapest(tree, root)[1], oldest), "declared": oldest["estimate"]}


def _outcome(tree: Tree, leaves: Sequence[Row]) -> dict[str, Any]:
    begun = [leaf for leaf in leaves if any(_counts(pod) for pod in tree.pods.get(leaf["uid"], ()))]
    if not begun or any(leaf["ended"] is None for leaf in begun):
        return {"phase": str(JobPhase.RUNNING), "ended": None}
    phases = {leaf["phase"] for leaf in begun}
    if JobPhase.FAILED in phases:
        phase = JobPhase.FAILED
    else:
        phase = JobPhase.COMPLETED if phases == {JobPhase.COMPLETED} else JobPhase.RUNNING
    return {"phase": str(phase), "ended": max(leaf["ended"] for leaf in begun)}


def _counts(pod: Row) -> bool:
    """Whether a pod held its requests, or may still hold them."""
    return held(pod) is not None or pod["released_high"] is None


def _cheapest(tree: Tree, above: Row) -> tuple[int, int]:
    """Return the least number of incomplete PodGroups, and the least number of pods, that must start below `above`.

    Like the scheduler, this counts the children that need least.
    """
    sizes = [_cheapest(tree, each) for each in tree.composites.get(above["uid"], ())]
    for leaf in tree.groups.get(above["uid"], ()):
        size = leaf["gang_size"] or 1
        sizes.append((int(len(tree.pods.get(leaf["uid"], ())) < size), size))
    least = sorted(sizes)[: above["min_groups"] or 1]
    return sum(lacking for lacking, _ in least), sum(size for _, size in least)
