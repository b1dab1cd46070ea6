"""Equivalence classes of jobs. The jobs of one class differ at most in their age and in their names.

If the scheduler cannot place one job of a class, it can place none of that class. Thousands of waiting jobs have few classes. A
session tries the oldest job of each class, and the next one only if the oldest was placed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.resources.selectors import selected_labels
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus

IDENTITY_LABELS: Final = frozenset({
    keys.CREATED_BY_JOB_FLOW,
    keys.JOB_NAME,
    keys.JOB_RETRY_COUNT,
    keys.TASK_INDEX,
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
    "pod-template-hash",
    "training.kubeflow.org/job-name",
    "training.kubeflow.org/replica-index",
    "ray.io/cluster",
})  # fmt: skip
"""Labels by which controllers name and number their objects. The jobs of one class may differ in these labels."""

_IGNORED_LABELS: Final = IDENTITY_LABELS | {
    keys.CRON_JOB_SCHEDULED_TIMESTAMP,
    "kubectl.kubernetes.io/last-applied-configuration",
}
_IGNORED_ANNOTATIONS: Final = _IGNORED_LABELS | {keys.WAITING, keys.TRACEPARENT}
_READ_LABELS: Final = keys.PREEMPTABLE, keys.SERVICE_CLASS
"""The labels of a PodGroup that sessions read, whatever plugins are configured."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_BYTES: Final = 16


def equivalence_class(
    group: Group, tasks: Sequence[TaskFacts], *, priority: int, queue: str, placement_labels: frozenset[str] | None = None
) -> bytes | None:
    """Return a digest that is equal for all jobs of one class; None if the job of `queue` is the only job of its class.

    `placement_labels`: the pod labels that decide the placement of pods, if no plugin reads other labels. None when any label may
    decide.

    A job is the only one of its class if one of these holds:

    - one of its pods is allocated, has a nominated node, or is behind a scheduling gate;
    - a pod has ResourceClaims or ephemeral volumes, or selects other pods by labels that contain names;
    - a pod requests nothing, as such pods are placed one by one;
    - a number is too large to be encoded.
    """
    counts: Counter[tuple[object, ...]] = Counter()
    dividing = frozenset().union(*map(_dividing, group.spec.sub_group_policy))
    passed_over = _IGNORED_LABELS - dividing
    read = None if placement_labels is None else (placement_labels - _IGNORED_LABELS) | dividing
    for task in tasks:
        shape = task.shape
        if task.status is not TaskStatus.PENDING or task.nominated or task.gates:
            return None
        claims = volume_claims(task.pod) if shape.has_claims else ()
        if task.pod.spec.resource_claims or any(claim.is_own for claim in claims):
            return None
        if shape.is_best_effort or not IDENTITY_LABELS.isdisjoint(shape.placement_labels):
            return None
        labels = task.pod.metadata.labels
        kept = _without(labels, passed_over) if read is None else {key: labels[key] for key in read & labels.keys()}
        policy = task.pod.spec.preemption_policy
        ranks = task.priority, task.pod.spec.priority
        counts[id(shape), task.role, task.part, ranks, task.is_preemptable, policy, tuple(sorted(kept.items())), claims] += 1
    meta = group.metadata
    own = _without(meta.labels, _IGNORED_LABELS) if read is None else {key: meta.labels.get(key, "") for key in _READ_LABELS}
    texts = _without(meta.annotations, _IGNORED_ANNOTATIONS), own
    content = (meta.namespace, queue, priority, group.spec, group.status.phase, texts, sorted(counts.items()))
    try:
        return hashlib.blake2b(_ENCODER.encode((content, read is None)), digest_size=_BYTES).digest()
    except OverflowError:
        return None


def _dividing(policy: records.SubGroupPolicy) -> set[str]:
    """Return the labels by which a policy divides pods into subgroups. These labels may be the numbers of the pods."""
    return selected_labels(policy.label_selector).union(policy.match_label_keys)


def _without(texts: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key not in names}
