"""Native PodGroups in the database: the links from pods to groups, and the outcome that pods and Jobs give a group.

A pod names its group, and may be recorded before its group. Links and outcomes are derived again from merged rows, in the
transaction that changes the rows. So the order of events makes no difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api.types import BATCH_JOBS
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.composites import update_composites
from pyroclast_recorder.database.merging import replace
from pyroclast_recorder.database.tables import Row, job_alikes, jobs, owners, pods
from pyroclast_recorder.facts.native_groups import KIND, GroupEnd, group_end, native_alike, native_outcome


async def native_groups_before(connection: AsyncConnection, batch: Batch) -> dict[str, Row]:
    """Return the stored rows of the groups that a batch is about to change, by uid."""
    uids = [row["uid"] for row in batch.rows.get(jobs, {}).values() if row["kind"] == KIND or row["removed"] is not None]
    if not uids:
        return {}
    chosen = select(jobs).where(jobs.c.cluster == batch.cluster, jobs.c.uid.in_(uids), jobs.c.kind == KIND)
    return {row["uid"]: dict(row) for row in (await connection.execute(chosen)).mappings()}


async def update_native_groups(connection: AsyncConnection, batch: Batch, before: Mapping[str, Row]) -> list[GroupEnd]:
    """Update the groups of pods and the outcomes of groups after a batch.

    Args:
        connection: the connection of the batch's transaction.
        batch: the batch that was written.
        before: the rows of the groups before the batch, from `native_groups_before`.

    Returns:
        The ends of the groups that ended with this batch.
    """
    of_jobs, of_pods = (batch.rows.get(table, {}).values() for table in (jobs, pods))
    groups = [row for row in of_jobs if row["kind"] == KIND]
    members = [row for row in of_pods if row["pod_group"] is not None]
    named = {*((row["namespace"], row["name"]) for row in groups), *((row["namespace"], row["pod_group"]) for row in members)}
    if named:
        await _link(connection, batch.cluster, named)
    changed_groups = [row["uid"] for row in of_jobs if row["kind"] == KIND or row["removed"] is not None]
    changed_pods = [row["uid"] for row in of_pods if row["pod_group"] is not None or row["namespace"] is None]
    changed_jobs = [row["uid"] for row in batch.rows.get(owners, {}).values() if row["kind"] in {BATCH_JOBS.kind, None}]
    if changed_groups or changed_pods or changed_jobs:
        followed = await _follow(connection, batch.cluster, changed_groups, changed_pods, changed_jobs)
    else:
        followed = []
    await update_composites(connection, batch, [each.after for each in followed])
    renewed = {row["uid"] for row in of_jobs}
    ends = []
    for each in followed:
        uid = each.after["uid"]
        if (end := group_end(before.get(uid) if uid in renewed else each.before, each.after, each.pods)) is not None:
            ends.append(end)
    return ends


class _Followed(NamedTuple):
    """The row of a group before and after the update of its outcome, and the rows of its pods."""

    before: Row
    after: Row
    pods: Sequence[Row]


async def _link(connection: AsyncConnection, cluster: str, named: set[tuple[str, str]]) -> None:
    """Link pods without a group row to the newest group with the namespace and name that the pods name."""
    same = (jobs.c.cluster == pods.c.cluster, jobs.c.namespace == pods.c.namespace, jobs.c.name == pods.c.pod_group)
    newest = select(jobs.c.uid).where(*same, jobs.c.kind == KIND).order_by(jobs.c.created.desc()).limit(1)
    namespaces, names = ({each[at] for each in named} for at in (0, 1))
    alone = (pods.c.cluster == cluster, pods.c.job.is_(None), pods.c.pod_group.is_not(None))
    chosen = (pods.c.namespace.in_(sorted(namespaces)), pods.c.pod_group.in_(sorted(names)))
    await connection.execute(update(pods).where(*alone, *chosen).values(job=newest.scalar_subquery()))


async def _follow(
    connection: AsyncConnection, cluster: str, uids: list[str], changed_pods: list[str], changed_jobs: list[str]
) -> list[_Followed]:
    """Update the outcomes of the groups `uids` and of the groups of changed pods and native Jobs; return these groups."""
    of_changed = (pods.c.cluster == cluster, pods.c.uid.in_(changed_pods), pods.c.pod_group.is_not(None), pods.c.job.is_not(None))
    theirs = await connection.scalars(select(pods.c.job).where(*of_changed))
    mine = (jobs.c.cluster == cluster, jobs.c.kind == KIND)
    named = sorted({*uids, *theirs})
    chosen = or_(jobs.c.uid.in_(named), jobs.c.owner_uid.in_(changed_jobs)) if changed_jobs else jobs.c.uid.in_(named)
    groups = [dict(row) for row in (await connection.execute(select(jobs).where(*mine, chosen))).mappings()]
    members = await _members(connection, cluster, groups)
    of_jobs = await _jobs(connection, cluster, groups)
    changes, alikes = [], []
    followed: list[_Followed] = []
    for group in groups:
        own = members[group["uid"]]
        outcome = native_outcome(group, own, of_jobs.get(group["owner_uid"]))
        followed.append(_Followed(group, {**group, **outcome}, own))
        if any(group[name] != value for name, value in outcome.items()):
            changes.append({"group": group["uid"], **outcome})
        if group["parent"] is None and (alike := native_alike({**group, **outcome}, own)) is not None:
            alikes.append({"cluster": cluster, "version": 0, **alike})
    if changes:
        await connection.execute(update(jobs).where(*mine, jobs.c.uid == bindparam("group")), changes)
    if new := await _unknown(connection, cluster, alikes):
        await connection.execute(replace(job_alikes, connection.dialect.name), new)
    return followed


async def _members(connection: AsyncConnection, cluster: str, groups: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of the pods of groups, by uid of the group."""
    found: dict[str, list[Row]] = defaultdict(list)
    of_groups = select(pods).where(pods.c.cluster == cluster, pods.c.job.in_([group["uid"] for group in groups]))
    for pod in (await connection.execute(of_groups)).mappings():
        found[pod["job"]].append(dict(pod))
    return found


async def _jobs(connection: AsyncConnection, cluster: str, groups: Sequence[Row]) -> dict[str, Row]:
    """Return the rows of the native Jobs that own groups, by uid of the Job."""
    made = sorted({group["owner_uid"] for group in groups if group["owner_uid"]})
    if not made:
        return {}
    chosen = select(owners).where(owners.c.cluster == cluster, owners.c.uid.in_(made), owners.c.kind == BATCH_JOBS.kind)
    return {row["uid"]: dict(row) for row in (await connection.execute(chosen)).mappings()}


async def _unknown(connection: AsyncConnection, cluster: str, alikes: Sequence[Row]) -> list[Row]:
    """Return the rows of `alikes` that are not in the table or differ from the row in the table."""
    if not alikes:
        return []
    chosen = select(job_alikes).where(job_alikes.c.cluster == cluster, job_alikes.c.job.in_([row["job"] for row in alikes]))
    known = {row["job"]: _told(dict(row)) for row in (await connection.execute(chosen)).mappings()}
    return [row for row in alikes if known.get(row["job"]) != _told(row)]


def _told(alike: Row) -> tuple[Any, ...]:
    return tuple(alike[name] for name in ("alike", "owner", "estimate"))
