"""The commands `vcctl explain`, `vcctl why` and `vcctl job`: the story of a Job, and the state of a queue or node."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, JOBS, NODES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import Forbidden, KubeError, NotFound
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.kube.http.servers import PATIENCE_SECONDS
from pyroclast.kube.http.waiting_queries import group_of, read_groups, schedulers_at_work
from pyroclast.views.explanation import explanation_lines, stored_explanation, with_trail
from pyroclast.views.groups import OBJECT, native_waiter, plain_waiter, unseen_waiter
from pyroclast.views.jobs import Waiter, is_waiting, running_cause, waiter_of
from pyroclast.views.nodes import explain_node, node_lines, reservations_of
from pyroclast.views.queues import explain_queue, queue_lines
from pyroclast.views.story import StoryFacts, away_since, log_source, nodes_of, story_lines, story_of, with_log
from pyroclast_cli.compatible import jobs
from pyroclast_cli.flags import Context, Failure
from pyroclast_cli.servers import BOARD, RECORDER, explained, records_of
from pyroclast_cli.tree import OwnLeaf, text_of
from pyroclast_cli.views.output import OUTPUT, write_one
from pyroclast_cli.views.scope import NAMESPACE, NO_SUCH_OBJECT, entries_that_wait, existing, job_key, namespace_of, views_in

NEVER: Final = 3
MOST_NODES: Final = 16
"""Nodes of a Job that are read one by one; for more, the list of all nodes costs less."""
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
    lines = explanation_lines(answer)
    if "story" in answer:
        width = shutil.get_terminal_size((80, 24)).columns - 1 if sys.stdout.isatty() else 79
        lines += story_lines(answer["story"], width=max(40, width))
    write_one(context, answer, lines, reference=reference)
    return NEVER if answer["never"] else 0


async def _of_job(context: Context, key: Key, job: dict[str, Any]) -> dict[str, Any]:
    client, uid = context.client, job["metadata"]["uid"]
    waits = is_waiting(job)
    waiter = waiter_of(job, await group_of(client, job), await schedulers_at_work(client))

    async def explanation() -> dict[str, Any]:
        if not waits:
            return stored_explanation(waiter, client.now(), trouble=running_cause(job))
        return await _answered(context, "jobs", waiter)

    answer, records = await asyncio.gather(explanation(), records_of(context, key))
    record = None if isinstance(records, str) else next((each for each in records if each.get("uid") == uid), None)
    if waits:
        answer = with_trail(answer, records if isinstance(records, str) else list((record or {}).get("causes") or ()))
    unknown = [f"history is not known, because {records}"] if isinstance(records, str) else []
    return {**answer, "story": await _story(context, StoryFacts(key.namespace, key.name, job, record=record), unknown)}


T = TypeVar("T")


async def _story(context: Context, facts: StoryFacts, unknown: list[str]) -> dict[str, Any]:
    """Return the story of a Job. Each source has a deadline, and one that is silent or refuses is named."""
    client = context.client

    async def read(what: str, answer: Awaitable[T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await answer
        except TimeoutError:
            unknown.append(f"{what} are not known, because the API server gave no answer in {PATIENCE_SECONDS:g} s")
        except Forbidden:
            unknown.append(f"{what} are not known, because you may not read them")
        except NotFound:  # it was deleted since
            pass
        except KubeError as error:
            unknown.append(f"{what} are not known, because {text_of(error)}")
        return otherwise

    selector = f"{keys.JOB_NAME}={facts.name}"
    (pods, _), (events, _) = await asyncio.gather(
        read("its pods", client.list(PODS, facts.namespace, label_selector=selector), ([], "")),
        read("evictions", client.list(EVENTS, facts.namespace, field_selector="reason=Evict"), ([], "")),
    )
    names = sorted(nodes_of(pods)) if facts.job is not None else []
    if len(names) > MOST_NODES:
        nodes, _ = await read("the states of its nodes", client.list(NODES), ([], ""))
    else:
        reads = (read("the states of its nodes", client.get(NODES, Key("", name)), None) for name in names)
        nodes = [node for node in await asyncio.gather(*reads) if node is not None]
    away = {name: since for each in nodes if (name := each["metadata"]["name"]) in names and (since := away_since(each))}
    facts = replace(facts, pods=pods, events=events, away=away)
    if (source := log_source(pods)) is not None:
        path = PODS.path(facts.namespace, source.pod, "log")
        log = await read("the last lines of its log", client.request("GET", path, query=source.query), b"")
        facts = with_log(facts, log.decode(errors="replace"))
    return story_of(replace(facts, unknown=tuple(dict.fromkeys(unknown))))


async def _answered(context: Context, kind: str, waiter: Waiter) -> dict[str, Any]:
    """Return the scheduler's answer; the stored cause when the scheduler gives none, or when the cause is not its own."""
    answer = None
    if waiter.cause is not None and waiter.cause.is_scheduling:
        answer = await explained(context, kind, waiter.namespace, waiter.name, query={"changes": "true"})
    return stored_explanation(waiter, context.client.now()) if answer is None else answer


async def _of_entry(context: Context, key: Key) -> dict[str, Any]:
    """Return the explanation of a Job that its flow has not created yet, or the story of a deleted Job."""
    for entry in await entries_that_wait(context.client, key.namespace):
        if entry.name == key.name:
            return stored_explanation(entry, context.client.now())
    records = await records_of(context, key)
    if isinstance(records, str):
        raise Failure(f"there is no Job {key}; whether there was one is not known, because {records}", status=NO_SUCH_OBJECT)
    if not records:
        raise Failure(f"there is no Job {key}, and the recorder knows of none", status=NO_SUCH_OBJECT)
    last = records[0]
    sentence = f"it does not exist any more; it was {last['state']}" + (f": {last['message']}" if last["message"] else "")
    gone = Waiter(JOBS.qualified, key.namespace, key.name, "", None, sentence, queue=last["queue"], phase=last["state"])
    story = story_of(StoryFacts(key.namespace, key.name, None, record=last))
    return {**stored_explanation(gone, context.client.now()), "story": story}


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
    "show what happened to a Job and why it waits, or the resources of a queue or node",
    _explain,
    (NAMESPACE, OUTPUT, BOARD, RECORDER),
    takes="NAME|podgroup/NAME|queue/NAME|node/NAME",
    statuses=(
        (0, "the Job waits, runs or has ended"),
        (NEVER, "the Job can never start"),
        (NO_SUCH_OBJECT, "the object does not exist"),
    ),
)


WHY: Final = replace(EXPLAIN, name="why", short="short for explain: what happened to a Job, and why it waits or failed")
JOB: Final = replace(jobs.JOB, children=(*jobs.JOB.children, EXPLAIN))
