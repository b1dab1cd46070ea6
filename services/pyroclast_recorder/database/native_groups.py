"""PodGroups of Kubernetes itself in the database: which pods are theirs, and what their pods tell of them.

A pod gives the name of its group, and may be seen before it. Both are worked out anew from merged rows, in the transaction that
changes these, so that the order in which objects were seen makes no difference.
"""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.tables import Row, jobs, pods
from pyroclast_recorder.facts.native_groups import KIND, native_outcome

__all__ = ["update_native_groups"]


async def update_native_groups(connection: AsyncConnection, batch: Batch) -> None:
    """Work out anew which pods belong to which group, and how groups are, where a batch changed rows; in its transaction."""
    of_jobs, of_pods = (batch.rows.get(table, {}).values() for table in (jobs, pods))
    groups = [row for row in of_jobs if row["kind"] == KIND]
    members = [row for row in of_pods if row["pod_group"] is not None]
    named = {*((row["namespace"], row["name"]) for row in groups), *((row["namespace"], row["pod_group"]) for row in members)}
    if named:
        await _link(connection, batch.cluster, named)
    changed_groups = [row["uid"] for row in of_jobs if row["kind"] == KIND or row["removed"] is not None]
    changed_pods = [row["uid"] for row in of_pods if row["pod_group"] is not None or row["namespace"] is None]
    if changed_groups or changed_pods:
        await _follow_pods(connection, batch.cluster, changed_groups, changed_pods)


async def _link(connection: AsyncConnection, cluster: str, named: set[tuple[str, str]]) -> None:
    """Let pods that belong to no group yet belong to the newest one that has the namespace and name that they give."""
    same = (jobs.c.cluster == pods.c.cluster, jobs.c.namespace == pods.c.namespace, jobs.c.name == pods.c.pod_group)
    newest = select(jobs.c.uid).where(*same, jobs.c.kind == KIND).order_by(jobs.c.created.desc()).limit(1)
    namespaces, names = ({each[at] for each in named} for at in (0, 1))
    alone = (pods.c.cluster == cluster, pods.c.job.is_(None), pods.c.pod_group.is_not(None))
    chosen = (pods.c.namespace.in_(sorted(namespaces)), pods.c.pod_group.in_(sorted(names)))
    await connection.execute(update(pods).where(*alone, *chosen).values(job=newest.scalar_subquery()))


async def _follow_pods(connection: AsyncConnection, cluster: str, uids: list[str], changed_pods: list[str]) -> None:
    """Work out the outcome of the groups `uids`, and of those that `changed_pods` belong to."""
    of_changed = (pods.c.cluster == cluster, pods.c.uid.in_(changed_pods), pods.c.pod_group.is_not(None), pods.c.job.is_not(None))
    theirs = await connection.scalars(select(pods.c.job).where(*of_changed))
    mine = (jobs.c.cluster == cluster, jobs.c.kind == KIND)
    found = await connection.execute(select(jobs).where(*mine, jobs.c.uid.in_(sorted({*uids, *theirs}))))
    groups = found.mappings().all()
    of_groups = select(pods).where(pods.c.cluster == cluster, pods.c.job.in_([group["uid"] for group in groups]))
    members: dict[str, list[Row]] = defaultdict(list)
    for pod in (await connection.execute(of_groups)).mappings():
        members[pod["job"]].append(dict(pod))
    outcomes = ((group, native_outcome(dict(group), members[group["uid"]])) for group in groups)
    changes = [
        {"group": group["uid"], **outcome}
        for group, outcome in outcomes
        if any(group[name] != value for name, value in outcome.items())
    ]
    if changes:
        await connection.execute(update(jobs).where(*mine, jobs.c.uid == bindparam("group")), changes)
