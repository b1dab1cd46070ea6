"""The commands `vcctl explain` and `vcctl job explain`: why a Job waits, and the state of a queue or node."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api.types import JOBS, NODES, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import Forbidden, NotFound
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.kube.http.waiting_queries import group_of, read_groups, schedulers_at_work
from pyroclast.views.explanation import entry_explanation, explanation, explanation_lines, with_trail
from pyroclast.views.jobs import JobView, view_of
from pyroclast.views.native_groups import OBJECT, native_explanation, native_lines
from pyroclast.views.nodes import reservations_of
from pyroclast.views.place_explanations import explain_node, explain_queue, node_lines, queue_lines
from pyroclast.views.waiting_causes import is_waiting
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.board import BOARD, explained
from pyroclast_cli.views.output import OUTPUT, write_one
from pyroclast_cli.views.reading import entries_that_wait, views_in
from pyroclast_cli.views.recorder import RECORDER, causes_of
from pyroclast_cli.views.scope import NAMESPACE, NO_SUCH_OBJECT, existing, job_key, namespace_of

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
        return await _explain_group(context, name)
    key = job_key(context)
    try:
        answer = await _of_job(context, key, await context.client.get(JOBS, key))
    except NotFound:
        answer = await _of_entry(context, key)
    write_one(context, answer, explanation_lines(answer), reference=f"vcjob.batch.volcano.sh/{key.name}")
    return NEVER if answer["never"] else 0


async def _of_job(context: Context, key: Key, job: dict[str, Any]) -> dict[str, Any]:
    """Return why a Job waits.

    The answer is the scheduler's if it names the same cause as the objects. Otherwise it follows from the objects.
    """
    client = context.client
    view = view_of(job, await group_of(client, job), await schedulers_at_work(client))
    if is_waiting(job):
        answer = await explained(context, "jobs", key.namespace, key.name, query={"changes": "true"})
        if answer is None or answer.get("code") != view.cause.code:
            answer = await _from_objects(context, view)
        return with_trail(answer, await causes_of(context, key, job["metadata"]["uid"]))
    return await _from_objects(context, view)


async def _from_objects(context: Context, view: JobView) -> dict[str, Any]:
    client = context.client
    try:
        queue = await client.get(QUEUES, Key("", view.queue))
    except (NotFound, Forbidden):
        queue = None
    return explanation(view, queue, await read_groups(client, view.namespace), client.now())


async def _of_entry(context: Context, key: Key) -> dict[str, Any]:
    """Return the explanation of a Job that its flow has not created yet.

    Raises:
        Failure: no flow has such an entry.
    """
    for entry in await entries_that_wait(context.client, key.namespace):
        if entry.name == key.name:
            return entry_explanation(entry, context.client.now())
    raise Failure(f"there is no Job {key}", status=NO_SUCH_OBJECT)


async def _explain_group(context: Context, name: str) -> int:
    """Explain why a native PodGroup waits, from the answer of the scheduler or from its conditions."""
    key = Key(namespace_of(context), name)
    kind = await kind_served(context.client)
    if kind is None:
        raise Failure(f"the API server has no {OBJECT}; name a Job: vcctl explain NAME", status=NO_SUCH_OBJECT)
    group = await existing(context, kind, key, f"PodGroup {key} of {kind.group}")
    answer = native_explanation(group, context.client.now())
    told = await explained(context, "podgroups", key.namespace, name, query={"changes": "true"}) if answer["code"] else None
    if told is not None and told.get("code") == answer["code"]:
        write_one(context, told, explanation_lines(told), reference=f"{OBJECT}/{name}")
        return NEVER if told["never"] else 0
    write_one(context, answer, native_lines(answer), reference=f"{OBJECT}/{name}")
    return 0


async def _explain_queue(context: Context, name: str) -> int:
    client = context.client
    queue = await existing(context, QUEUES, Key("", name), f'queue "{name}"')
    reading = await read_groups(client, client.config.namespace)
    jobs = await views_in(client, "" if reading.is_complete else client.config.namespace)
    answer = explain_queue(queue, reading.groups, jobs, client.now())
    write_one(context, answer, queue_lines(answer), reference=f"queue.scheduling.volcano.sh/{name}")
    return 0


async def _explain_node(context: Context, name: str) -> int:
    client = context.client
    node = await existing(context, NODES, Key("", name), f'node "{name}"')
    ended = "status.phase!=Succeeded,status.phase!=Failed"
    pods, _ = await client.list(PODS, field_selector=f"spec.nodeName={name},{ended}")
    reading = await read_groups(client, client.config.namespace)
    answer = explain_node(node, pods, reservations_of(reading.groups))
    write_one(context, answer, node_lines(answer), reference=f"node/{name}")
    return 0


EXPLAIN: Final = Leaf(
    "explain",
    "tell why a Job waits, or what a queue or node has: 0 waits or runs, 3 waits for what never comes, 4 there is none",
    _explain,
    (NAMESPACE, OUTPUT, BOARD, RECORDER),
    takes="NAME|podgroup/NAME|queue/NAME|node/NAME",
    is_ours=True,
)
