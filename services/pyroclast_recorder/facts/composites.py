"""The rows of CompositePodGroups, and the run of a whole tree, whose PodGroups start together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, NativeConditionType
from pyroclast.api.records.meta import Meta, OwnerReference
from pyroclast.api.records.native_groups import CompositePodGroup
from pyroclast.api.run_lengths import alike_keys, digest, of_one_pod, worth_key
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.facts.native_groups import condition_of, oldest_pod, queue_of
from pyroclast_recorder.facts.units import clipped, seconds
from pyroclast_recorder.hourly_usage import held


def composite_facts(group: CompositePodGroup, now: int, *, is_deleted: bool) -> dict[str, Any] | None:
    """Return the row of a CompositePodGroup, without the columns `cluster` and `version`.

    None when none of our schedulers has examined the CompositePodGroup. `now`: seconds since the epoch.
    """
    meta, spec = group.metadata, group.spec
    if condition_of(group, NativeConditionType.QUEUED) is None:
        return None
    owner, gang = meta.controller, spec.scheduling_policy.gang
    scheduled = condition_of(group, NativeConditionType.COMPOSITE_SCHEDULED)
    has_started = scheduled is not None and scheduled.status == "True"
    return {
        "uid": meta.uid,
        "namespace": meta.namespace,
        "name": meta.name,
        "parent": clipped(spec.parent_composite_pod_group_name, 253) or None,
        "queue": queue_of(group),
        "owner_name": clipped(owner.name, 253) if owner else None,
        "estimate": clipped(meta.annotations.get(keys.RUNNING_ESTIMATE, ""), 63) or None,
        "min_groups": 1 if gang is None else gang.min_group_count,
        "created": seconds(meta.creation_timestamp),
        "started": seconds(scheduled.last_transition_time) if scheduled is not None and has_started else None,
        "removed": seconds(meta.deletion_timestamp) or (now if is_deleted else None),
    }


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
    told: dict[str, Any] = {**_outcome(tree, leaves), "queue": queue, "alike": None, "owner": None, "declared": None}
    oldest = oldest_pod(pods)
    if oldest is None:
        return told
    namespace = root["namespace"]
    owners = (OwnerReference(name=root["owner_name"], controller=True),) if root["owner_name"] else ()
    meta = Meta(name=root["name"], owner_references=owners)
    members, asked = _cheapest(tree, root)[1], of_one_pod(orjson.loads(oldest["requests"]))
    alike = alike_keys(meta, namespace, queue or "default", members, asked)
    owner = digest(worth_key(meta, namespace))
    return {**told, "alike": ",".join(map(digest, alike)), "owner": owner, "declared": oldest["estimate"]}


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
