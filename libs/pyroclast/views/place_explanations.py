"""Explanations of a queue or a node, for users who ask why no Job starts there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyroclast.resources.pods import effective
from pyroclast.views.documents import Row, document
from pyroclast.views.jobs import Group, JobView, is_waiting
from pyroclast.views.nodes import node_rows, state_of
from pyroclast.views.queues import queue_rows
from pyroclast.views.readable import added, as_text, human_duration

SHOWN: Final = 3
JOB_NAME: Final = "volcano.sh/job-name"


def explain_queue(queue: Mapping[str, Any], groups: Sequence[Group], jobs: Iterable[JobView], now: float) -> dict[str, Any]:
    """Return the document `QueueExplanation`: the amounts of the queue, and why its Jobs wait.

    `jobs`: the Jobs of the queue that the user may read.
    """
    name = queue["metadata"]["name"]
    rows = queue_rows([queue], groups, now, is_tree=False)
    codes = Counter(str(job.cause.code) for job in jobs if job.queue == name and is_waiting(job.job))
    first = rows[0]
    names = ("resource", "guarantee", "deserved", "allocated", "borrowed", "limit")
    fields = {
        "metadata": {"name": name},
        "state": first["state"],
        "parent": first["parent"],
        "waiting": first["waiting"],
        "running": first["running"],
        "oldestSeconds": first["oldestSeconds"],
        "resources": [{each: row[each] for each in names} for row in rows if row["resource"]],
        "codes": dict(codes.most_common()),
    }
    return document("QueueExplanation", fields)


def queue_lines(answer: Row) -> list[str]:
    """Return the explanation of a queue as lines for a terminal."""
    lines = [f"queue {answer['metadata']['name']} is {answer['state'] or 'not looked at yet'}: {_counts(answer)}"]
    if answer["oldestSeconds"] is not None:
        lines.append(f"oldest   waits for {human_duration(answer['oldestSeconds'])}")
    for each in answer["resources"]:
        words = ("guarantee", "deserved", "borrowed", "limit")
        more = ", ".join(f"{word} {each[word]}" for word in words if each[word] is not None)
        lines.append(f"has      {each['allocated']} {each['resource']}{f' ({more})' if more else ''}")
    if answer["codes"]:
        lines.append(f"why      {', '.join(f'{count} {code}' for code, count in answer['codes'].items())}")
    if answer["state"] not in {"Open", None, ""}:
        lines.append("help     its owner opens it: vcctl queue operate -a open -n NAME")
    return lines


def _counts(answer: Row) -> str:
    return f"{answer['waiting']} wait, {answer['running']} run"


def explain_node(
    node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], reserved: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the document `NodeExplanation`: why pods are kept off the node, its free resources, and its Jobs.

    `pods`: the pods on the node.
    """
    (row,) = node_rows([node], pods, None, reserved)
    spec = node.get("spec") or {}
    taints = [f"{each.get('key')}={each.get('value', '')}:{each.get('effect')}" for each in spec.get("taints") or ()]
    holders: dict[str, list[Mapping[str, str]]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        name = (metadata.get("labels") or {}).get(JOB_NAME) or metadata["name"]
        asked = {resource: str(value) for resource, value in effective(pod["spec"], "requests").items()}
        holders.setdefault(f"{metadata['namespace']}/{name}", []).append(asked)
    fields = {
        "metadata": {"name": node["metadata"]["name"]},
        "state": state_of(node),
        "taints": taints,
        "allocatable": {name: str(value) for name, value in ((node.get("status") or {}).get("allocatable") or {}).items()},
        "free": row["largestFree"],
        "reservedFor": row["reservedFor"],
        "holders": [{"name": name, "pods": len(asks), "asks": added(asks)} for name, asks in sorted(holders.items())],
    }
    return document("NodeExplanation", fields)


def node_lines(answer: Row) -> list[str]:
    """Return the explanation of a node as lines for a terminal."""
    lines = [f"node {answer['metadata']['name']} is {answer['state']}"]
    if answer["taints"]:
        lines.append(f"taints   {', '.join(answer['taints'])}: only pods that tolerate them come here")
    lines.append(f"free     {as_text(answer['free']) or 'nothing'}")
    if answer["reservedFor"]:
        lines.append(f"kept     for {', '.join(answer['reservedFor'])}")
    lines += [f"holds    {each['name']}: {each['pods']} pods, {as_text(each['asks']) or 'nothing'}" for each in answer["holders"]]
    return lines
