"""The reader of `scheduling.volcano.sh` PodGroups, which describe a group completely."""

from __future__ import annotations

from pyroclast.api import records
from pyroclast.api.types import POD_GROUPS
from pyroclast_scheduler.model.groups import Group, GroupSpec


def group_of(record: records.PodGroup) -> Group:
    """Return the group of pods that the PodGroup `record` describes."""
    spec = record.spec
    return Group(
        kind=POD_GROUPS,
        key=str(record.key),
        metadata=record.metadata,
        spec=GroupSpec(
            min_member=spec.min_member,
            min_task_member=spec.min_task_member,
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=spec.min_resources,
            network_topology=spec.network_topology,
            sub_group_policy=spec.sub_group_policy,
        ),
        status=record.status,
    )


def record_of(group: Group) -> records.PodGroup:
    """Return the PodGroup that describes `group`, with the status that is being written."""
    spec = group.spec
    return records.PodGroup(
        metadata=group.metadata,
        spec=records.PodGroupSpec(
            min_member=spec.min_member,
            min_task_member=spec.min_task_member,
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=spec.min_resources,
            network_topology=spec.network_topology,
            sub_group_policy=spec.sub_group_policy,
        ),
        status=group.status,
    )
