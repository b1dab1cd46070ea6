"""Filters of changes: a change that cannot affect the decision about a Job causes no reconcile."""

from __future__ import annotations

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import Pod, PodGroup, Queue
from pyroclast.lifecycle.gang import podgroups
from pyroclast.lifecycle.job import waits


def pod_changed(old: Pod, new: Pod) -> bool:
    """Whether a pod changed in a field that decisions read. The node, the addresses and the conditions of the pod are ignored."""
    return (
        old.status.phase is not new.status.phase
        or old.metadata.uid != new.metadata.uid
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.container_statuses != new.status.container_statuses
        or old.status.init_container_statuses != new.status.init_container_statuses
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
        or old.metadata.owner_references != new.metadata.owner_references
    )


def group_changed(old: PodGroup, new: PodGroup) -> bool:
    """Whether a PodGroup changed in a field that decisions read.

    These are the admission, the newest condition, the phase Unknown, the spec, and the metadata that the controller writes.
    """
    return (
        podgroups.is_admitted(old) is not podgroups.is_admitted(new)
        or old.metadata.uid != new.metadata.uid
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.finalizers != new.metadata.finalizers
        or (new.status.phase is PodGroupPhase.UNKNOWN) is not (old.status.phase is PodGroupPhase.UNKNOWN)
        or waits.newest_condition(old) != waits.newest_condition(new)
        or old.spec != new.spec
        or old.metadata.owner_references != new.metadata.owner_references
        or old.metadata.annotations != new.metadata.annotations
    )


def queue_changed(old: Queue, new: Queue) -> bool:
    """Whether a queue changed its state or the clusters to which it forwards Jobs."""
    return old.spec.extend_clusters != new.spec.extend_clusters or old.status.state is not new.status.state
