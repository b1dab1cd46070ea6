"""CompositePodGroups in the database: the links from children to parents, and the run time of each tree.

A child names its parent, and may be recorded before its parent. So links and run times are derived again from merged rows after
each change, as for native PodGroups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import Column, bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.tables import Row, composites, jobs, pods
from pyroclast_recorder.facts.composites import Tree, tree_run


async def update_composites(connection: AsyncConnection, batch: Batch, groups: Collection[Row]) -> None:
    """Update the parents of children, and the columns of each root that its tree determines, after a batch.

    Args:
        connection: the connection of the batch's transaction.
        batch: the batch that was written.
        groups: the rows of PodGroups that changed, or whose pods changed.
    """
    changed = list(batch.rows.get(composites, {}).values())
    leaves = [row for row in groups if row["parent"] is not None]
    if not changed and not leaves:
        return
    named = {(row["namespace"], name) for row in changed for name in (row["name"], row["parent"]) if name is not None}
    await _link(connection, batch.cluster, named | {(row["namespace"], row["parent"]) for row in leaves})
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


async def _link(connection: AsyncConnection, cluster: str, named: set[tuple[str, str]]) -> None:
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
    """Return the trees of the CompositePodGroups `uids`. Trees without a recorded root are left out."""
    roots: dict[str, Row] = {}
    seen: set[str] = set()
    while uids := uids - seen:
        seen |= uids
        found = await _rows(connection, cluster, composites.c.uid, uids)
        roots |= {row["uid"]: row for row in found if row["parent"] is None}
        uids = {row["parent_uid"] for row in found if row["parent_uid"] is not None}
    parts, below = [], set(roots)
    while level := await _rows(connection, cluster, composites.c.parent_uid, below):
        parts += level
        below = {row["uid"] for row in level}
    leaves = await _rows(connection, cluster, jobs.c.parent_uid, {*roots, *(row["uid"] for row in parts)})
    members = await _rows(connection, cluster, pods.c.job, {row["uid"] for row in leaves})
    below_them = _by("parent_uid", parts), _by("parent_uid", leaves), _by("job", members)
    return [Tree(root, *below_them) for root in roots.values()]


async def _rows(connection: AsyncConnection, cluster: str, column: Column[str], values: Collection[str]) -> list[Row]:
    """Return the rows of the table of `column` in which `column` has one of `values`."""
    if not values:
        return []
    chosen = select(column.table).where(column.table.c.cluster == cluster, column.in_(sorted(values)))
    return [dict(row) for row in (await connection.execute(chosen)).mappings()]


def _by(name: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return found
