"""The commands `vcctl explain` and `vcctl job`: why a Job waits, and the state of a queue or node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pyroclast.api.types import JOBS, NODES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.kube.http.waiting_queries import group_of, read_groups, schedulers_at_work
from pyroclast.views.explanation import explanation_lines, stored_explanation, with_trail
from pyroclast.views.groups import OBJECT, native_waiter, plain_waiter, unseen_waiter
from pyroclast.views.jobs import Waiter, is_waiting, running_cause, view_of
from pyroclast.views.nodes import explain_node, node_lines, reservations_of
from pyroclast.views.queues import explain_queue, queue_lines
from pyroclast_cli.compatible import jobs
from pyroclast_cli.flags import Context, Failure
from pyroclast_cli.servers import BOARD, RECORDER, causes_of, explained
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import OUTPUT, write_one
from pyroclast_cli.views.scope import NAMESPACE, NO_SUCH_OBJECT, entries_that_wait, existing, job_key, namespace_of, views_in

NEVER: Final = 3
QUEUE_KINDS: Final = frozenset({"queue", "queues", "q"})
GROUP_KINDS: Final = frozenset({"podgroup", "podgroups", "pg", OBJECT, "podgroup.scheduling.k8s.io"})
NODE_KINDS: Final = frozenset({"node", "nodes", "no"})


async def _explain(context: Context) -> int:
    kind, _, name = context.arguments[0].partition("/") if len(context.arguments) == 1 else ("", "", "")
    if kind.lower() in QUEUE_KINDS and name:
        return await _explain_queue(context, name)
    if kind.lower() in NODE_KINDS and name:
        return await _explain_node(context, name)
    if kind.lower() in GROUP_KINDS and name:
        key, reference = Key(namespace_of(context), name), f"{OBJECT}/{name}"
        answer = await _of_group(context, key)
    else:
        key = job_key(context)
        reference = f"vcjob.batch.volcano.sh/{key.name}"
        try:
            answer = await _of_job(context, key, await context.client.get(JOBS, key))
        except NotFound:
            answer = await _of_entry(context, key)
    write_one(context, answer, explanation_lines(answer), reference=reference)
    return NEVER if answer["never"] else 0


async def _of_job(context: Context, key: Key, job: dict[str, Any]) -> dict[str, Any]:
    client = context.client
    view = view_of(job, await group_of(client, job), await schedulers_at_work(client))
    if not is_waiting(job):
        return stored_explanation(view.waiter, client.now(), trouble=running_cause(job))
    answer = await _answered(context, "jobs", view.waiter)
    return with_trail(answer, await causes_of(context, key, job["metadata"]["uid"]))


async def _answered(context: Context, kind: str, waiter: Waiter) -> dict[str, Any]:
    """Return the scheduler's answer; the stored cause when the scheduler gives none, or when the cause is not its own."""
    answer = None
    if waiter.cause is not None and waiter.cause.is_scheduling:
        answer = await explained(context, kind, waiter.namespace, waiter.name, query={"changes": "true"})
    return stored_explanation(waiter, context.client.now()) if answer is None else answer


async def _of_entry(context: Context, key: Key) -> dict[str, Any]:
    """Return the explanation of a Job that its flow has not created yet."""
    for entry in await entries_that_wait(context.client, key.namespace):
        if entry.name == key.name:
            return stored_explanation(entry, context.client.now())
    raise Failure(f"there is no Job {key}", status=NO_SUCH_OBJECT)


async def _of_group(context: Context, key: Key) -> dict[str, Any]:
    """Return why a PodGroup that belongs to no Job waits, a native one or one of Volcano."""
    kind = await kind_served(context.client)
    try:
        group = await context.client.get(kind or POD_GROUPS, key)
    except NotFound:
        kind, group = None, await existing(context, POD_GROUPS, key, f"PodGroup {key}")
    if kind is None:
        if (waiter := plain_waiter(group)) is None:
            raise Failure(f"PodGroup {key} belongs to a Job, or its pods have ended; name the Job: vcctl explain NAME")
        return await _answered(context, "jobs", waiter)
    return await _answered(context, "podgroups", native_waiter(group) or unseen_waiter(group))


async def _explain_queue(context: Context, name: str) -> int:
    client = context.client
    queue = await existing(context, QUEUES, Key("", name), f'queue "{name}"')
    groups, is_complete = await read_groups(client, client.config.namespace)
    jobs = await views_in(client, "" if is_complete else client.config.namespace)
    order = await explained(context, "queues", name, query={"limit": "1"})
    answer = explain_queue(queue, groups, jobs, client.now(), order)
    write_one(context, answer, queue_lines(answer), reference=f"queue.scheduling.volcano.sh/{name}")
    return 0


async def _explain_node(context: Context, name: str) -> int:
    client = context.client
    node = await existing(context, NODES, Key("", name), f'node "{name}"')
    ended = "status.phase!=Succeeded,status.phase!=Failed"
    pods, _ = await client.list(PODS, field_selector=f"spec.nodeName={name},{ended}")
    groups, _ = await read_groups(client, client.config.namespace)
    answer = explain_node(node, pods, reservations_of(groups))
    write_one(context, answer, node_lines(answer), reference=f"node/{name}")
    return 0


EXPLAIN: Final = OwnLeaf(
    "explain",
    "show why a Job waits, or the resources of a queue or node",
    _explain,
    (NAMESPACE, OUTPUT, BOARD, RECORDER),
    takes="NAME|podgroup/NAME|queue/NAME|node/NAME",
    statuses=((0, "the Job waits or runs"), (NEVER, "the Job can never start"), (NO_SUCH_OBJECT, "the object does not exist")),
)


JOB: Final = replace(jobs.JOB, children=(*jobs.JOB.children, EXPLAIN))
