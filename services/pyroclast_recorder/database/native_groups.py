"""Native PodGroups and their CompositePodGroups in the database: links to parents, and the outcomes that follow from members.

A pod names its group and a child its parent, and may be recorded before it. So links, outcomes and run times of trees are derived
again from merged rows, in the transaction that changes the rows. The order of events makes no difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy import Column, ColumnElement, and_, bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api.types import BATCH_JOBS
from pyroclast_recorder.database.batches import Batch, replace
from pyroclast_recorder.database.connections import read_rows
from pyroclast_recorder.database.tables import Row, composites, job_alikes, jobs, owners, pods
from pyroclast_recorder.facts.native_groups import (
    KIND,
    GroupEnd,
    Tree,
    group_end,
    group_of,
    native_alike,
    native_outcome,
    tree_run,
)

log = structlog.get_logger()

MOST_LEVELS: Final = 16
"""The most levels of a recorded tree. The scheduler places trees of at most four levels, and each level costs two queries."""


async def update_composites(connection: AsyncConnection, batch: Batch, groups: Collection[Row]) -> None:
    """Update the parents of children, and the columns of each root that its tree determines, after a batch.

    `groups`: the rows of PodGroups that changed, or whose pods changed.
    """
    changed = list(batch.rows.get(composites, {}).values())
    leaves = [row for row in groups if row["parent"] is not None]
    if not changed and not leaves:
        return
    named = {(row["namespace"], name) for row in changed for name in (row["name"], row["parent"]) if name is not None}
    await _link_to_parent(connection, batch.cluster, named | {(row["namespace"], row["parent"]) for row in leaves})
    mine = (jobs.c.cluster == batch.cluster, jobs.c.uid.in_([row["uid"] for row in leaves]), jobs.c.parent_uid.is_not(None))
    above = await connection.scalars(select(jobs.c.parent_uid).where(*mine))
    changes = []
    for tree in await _trees(connection, batch.cluster, {*above, *(row["uid"] for row in changed)}):
        run = tree_run(tree)
        if any(tree.root[name] != value for name, value in run.items()):
            changes.append({"root": tree.root["uid"], **run})
    if changes:
        of_roots = (composites.c.cluster == batch.cluster, composites.c.uid == bindparam("root"))
        await connection.execute(update(composites).where(*of_roots), changes)


async def _link_to_parent(connection: AsyncConnection, cluster: str, named: set[tuple[str, str]]) -> None:
    """Link children without a parent row to the newest CompositePodGroup with the namespace and name that they name."""
    namespaces, names = ({each[at] for each in named} for at in (0, 1))
    for table in (jobs, composites):
        above = composites.alias()
        same = (above.c.cluster == table.c.cluster, above.c.namespace == table.c.namespace, above.c.name == table.c.parent)
        was_there = or_(above.c.removed.is_(None), above.c.removed >= table.c.created)
        newest = select(above.c.uid).where(*same, was_there).order_by(above.c.created.desc()).limit(1).correlate(table)
        alone = (table.c.cluster == cluster, table.c.parent_uid.is_(None), table.c.parent.is_not(None))
        chosen = (table.c.namespace.in_(sorted(namespaces)), table.c.parent.in_(sorted(names)))
        await connection.execute(update(table).where(*alone, *chosen).values(parent_uid=newest.scalar_subquery()))


async def _trees(connection: AsyncConnection, cluster: str, uids: set[str]) -> list[Tree]:
    """Return the trees of the CompositePodGroups `uids`. Trees without a recorded root are left out, and deeper ones too."""
    roots: dict[str, Row] = {}
    seen: set[str] = set()
    for _ in range(MOST_LEVELS):
        uids = uids - seen
        if not uids:
            break
        seen |= uids
        found = await _rows(connection, cluster, composites.c.uid, uids)
        roots |= {row["uid"]: row for row in found if row["parent"] is None}
        uids = {row["parent_uid"] for row in found if row["parent_uid"] is not None}
    parts: list[Row] = []
    root_of = {uid: uid for uid in roots}  # of the composites of one level
    for _ in range(MOST_LEVELS):
        level = await _rows(connection, cluster, composites.c.parent_uid, root_of)
        parts += level
        root_of = {row["uid"]: root_of[row["parent_uid"]] for row in level}
    for uid in set(root_of.values()):
        log.warning("recorder.tree_too_deep", name=f"{roots[uid]['namespace']}/{roots[uid]['name']}", most=MOST_LEVELS)
        del roots[uid]
    leaves = await _rows(connection, cluster, jobs.c.parent_uid, {*roots, *(row["uid"] for row in parts)})
    members = await _rows(connection, cluster, pods.c.job, {row["uid"] for row in leaves})
    below_them = _by("parent_uid", parts), _by("parent_uid", leaves), _by("job", members)
    return [Tree(root, *below_them) for root in roots.values()]


async def _rows(connection: AsyncConnection, cluster: str, column: Column[str], values: Collection[str]) -> Sequence[Row]:
    """Return the rows of the table of `column` in which `column` has one of `values`."""
    if not values:
        return []
    chosen = select(column.table).where(column.table.c.cluster == cluster, column.in_(sorted(values)))
    return await read_rows(connection, chosen)


def _by(name: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return found


async def native_groups_before(connection: AsyncConnection, batch: Batch) -> dict[str, Row]:
    """Return the stored rows of the groups that a batch is about to change, by uid."""
    uids = [row["uid"] for row in batch.rows.get(jobs, {}).values() if row["kind"] == KIND or row["removed"] is not None]
    return {row["uid"]: row for row in await _rows(connection, batch.cluster, jobs.c.uid, uids) if row["kind"] == KIND}


async def update_native_groups(connection: AsyncConnection, batch: Batch, before: Mapping[str, Row]) -> list[GroupEnd]:
    """Update the groups of pods and the outcomes of groups after a batch; return the ends of the groups that ended with it.

    `before`: the rows of the groups before the batch, from `native_groups_before`.
    """
    of_jobs, of_pods = (batch.rows.get(table, {}).values() for table in (jobs, pods))
    groups = [row for row in of_jobs if row["kind"] == KIND]
    members = [row for row in of_pods if row["pod_group"] is not None]
    lost = await _link(connection, batch, groups, members) if groups or members else set()
    changed_groups = [*lost, *(row["uid"] for row in of_jobs if row["kind"] == KIND or row["removed"] is not None)]
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


async def _link(connection: AsyncConnection, batch: Batch, groups: Collection[Row], members: Collection[Row]) -> set[str]:
    """Link pods to the group of their name and their time, after changes of either. Return the uids of groups that lost a pod.

    `groups` and `members`: the changed rows of groups and of pods.
    """
    named = {(row["namespace"], row["name"]) for row in groups}
    of_groups = and_(*_is_named(pods.c.namespace, pods.c.pod_group, named))
    chosen = or_(of_groups, pods.c.uid.in_([row["uid"] for row in members]))
    found = select(pods).where(pods.c.cluster == batch.cluster, pods.c.pod_group.is_not(None), chosen)
    of_pods = await read_rows(connection, found)
    named |= {(row["namespace"], row["pod_group"]) for row in of_pods}
    there = select(jobs.c.uid, jobs.c.namespace, jobs.c.name, jobs.c.created, jobs.c.removed).where(
        jobs.c.cluster == batch.cluster, jobs.c.kind == KIND, *_is_named(jobs.c.namespace, jobs.c.name, named)
    )
    by_name: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in await read_rows(connection, there):
        by_name[row["namespace"], row["name"]].append(row)
    for of_name in by_name.values():
        of_name.sort(key=lambda row: (row["created"] or 0, row["uid"]))
    right = [(row, group_of(row, by_name.get((row["namespace"], row["pod_group"]), ()))) for row in of_pods]
    changes = [{"pod": row["uid"], "group": group} for row, group in right if row["job"] != group]
    if changes:
        of_pod = (pods.c.cluster == batch.cluster, pods.c.uid == bindparam("pod"))
        await connection.execute(update(pods).where(*of_pod).values(job=bindparam("group")), changes)
    return {row["job"] for row, group in right if row["job"] not in {None, group}}


def _is_named(
    namespace: Column[Any], name: Column[Any], named: Iterable[tuple[str, str]]
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions of rows with these namespaces and names, and of some others in these namespaces."""
    namespaces, names = ({each[at] for each in named} for at in (0, 1))
    return namespace.in_(sorted(namespaces)), name.in_(sorted(names))


async def _follow(
    connection: AsyncConnection, cluster: str, uids: list[str], changed_pods: list[str], changed_jobs: list[str]
) -> list[_Followed]:
    """Update the outcomes of the groups `uids` and of the groups of changed pods and native Jobs; return these groups."""
    of_changed = (pods.c.cluster == cluster, pods.c.uid.in_(changed_pods), pods.c.pod_group.is_not(None), pods.c.job.is_not(None))
    theirs = await connection.scalars(select(pods.c.job).where(*of_changed))
    mine = (jobs.c.cluster == cluster, jobs.c.kind == KIND)
    named = sorted({*uids, *theirs})
    chosen = or_(jobs.c.uid.in_(named), jobs.c.owner_uid.in_(changed_jobs)) if changed_jobs else jobs.c.uid.in_(named)
    groups = await read_rows(connection, select(jobs).where(*mine, chosen))
    members = _by("job", await _rows(connection, cluster, pods.c.job, [group["uid"] for group in groups]))
    owner_uids = {group["owner_uid"] for group in groups if group["owner_uid"]}
    of_owners = await _rows(connection, cluster, owners.c.uid, owner_uids)
    of_jobs = {row["uid"]: row for row in of_owners if row["kind"] == BATCH_JOBS.kind}
    changes, alikes = [], []
    followed: list[_Followed] = []
    for group in groups:
        own = members.get(group["uid"], [])
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


async def _unknown(connection: AsyncConnection, cluster: str, alikes: Sequence[Row]) -> list[Row]:
    """Return the rows of `alikes` that are not in the table or differ from the row in the table."""
    stored = {row["job"]: row for row in await _rows(connection, cluster, job_alikes.c.job, [row["job"] for row in alikes])}
    columns = ("job", "alike", "owner", "estimate")
    return [row for row in alikes if any(stored.get(row["job"], {}).get(name) != row[name] for name in columns)]
