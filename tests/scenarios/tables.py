"""Cases that are tables of one rule: each row is a case, run against the code of that rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.configuration import Configuration, PluginEntry
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.session import Ports, Session
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.jobs import JobFacts
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import task_of
from pyroclast_scheduler.plugins.gang import is_left_alone
from pyroclast_scheduler.plugins.predicates import Predicates

from . import objects
from .runner import Result, feed


def gang_skip(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether a job that is not ready says nothing while its members go."""
    for number, row in enumerate(case["rows"], 1):
        book = ShapeBook()
        tasks = {}
        for i, text in enumerate(row["tasks"]):
            status, _, node = text.partition("@")
            task = task_of(objects.pod([f"p{i}", "j", "-", 1, "1G"]), book)
            tasks[task.uid] = task.moved(TaskStatus[status.upper()], node)
        group = objects.pod_group(["j", "q", row["min"]])
        job = Job(JobFacts(group, tasks, priority=0, queue="q"), Dimensions(), {})
        got = is_left_alone(job)
        yield Result(f"{name}.{number}", [] if got == row["skip"] else [f"got {got}, want {row['skip']}"])


def switches(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which filters the switches of predicates leave."""
    for number, row in enumerate(case["rows"], 1):
        got = set(Predicates(Arguments(row["args"])).filters)
        wrong = sorted(set(row.get("filters", [])) - got) + sorted(got & set(row.get("missing", [])))
        yield Result(f"{name}.{number}", [f"wrong: {wrong}"] if wrong else [])


def enqueue_vote(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether a PodGroup with given minimum resources is let in."""
    plugins = {plugin for tier in case["profile"]["tiers"] for listing in tier for plugin in listing}
    if not plugins <= set(registry.plugins()):
        yield Result(name, missing=[f"plugin {plugin}" for plugin in sorted(plugins - set(registry.plugins()))])
        return
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        group = ["j", "q", 1, {"phase": "Pending", "minRes": row["minRes"]}]
        feed(cache, {"nodes": case["nodes"], "queues": [["q", {}]], "podgroups": [group]})
        entries = [PluginEntry(plugin, arguments={f"{plugin}-factor": row["factor"]}) for plugin in sorted(plugins)]
        session = open_session(cache, entries)
        (job,) = session.jobs.values()
        differences = [] if session.job_enqueueable(job) is row["admit"] else [f"want admit {row['admit']}"]
        if "event" in row and row["event"] not in [note.message[: len(row["event"])] for note in session.notes]:
            differences.append(f"no event {row['event']!r} in {session.notes}")
        yield Result(f"{name}.{number}", differences)


def score(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """The scores that one plugin gives nodes for a pod."""
    plugin = case.get("plugin")
    if plugin not in registry.plugins() or not isinstance(case.get("nodes"), list):
        yield Result(name, missing=[f"plugin {plugin}"])
        return
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        feed(cache, {"nodes": case["nodes"], "queues": [["q", {}]], "podgroups": [["j", "q", 1]]})
        for node_row in case["nodes"]:
            used = (node_row[3] if len(node_row) > 3 else {}).get("used")
            if used:
                feed(cache, {"pods": [[f"on-{node_row[0]}", "j", node_row[0], used["cpu"], used["memory"]]]})
        asked = row["pod"]
        extra = {key: value for key, value in asked.items() if "/" in key}
        feed(cache, {"pods": [["p", "j", "-", asked.get("cpu", 0), asked.get("memory", 0), extra]]})
        session = open_session(cache, [PluginEntry(plugin, arguments=case.get("args", {}))])
        plan = session.plan(cache.tasks["t-p"].shape)
        scores = plan.score(np.arange(len(session.names)), 1)[:, 0]
        got = {node: float(value) for node, value in zip(session.names, scores, strict=True)}
        wrong = {node: got[node] for node, want in row["scores"].items() if abs(got[node] - want) > TOLERANCE}
        yield Result(f"{name}.{number}", [f"got {wrong}, want {row['scores']}"] if wrong else [])


def victim_filter(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which candidates one plugin lets go."""
    plugin = case.get("plugin")
    if plugin not in registry.plugins():
        yield Result(name, missing=[f"plugin {plugin}"])
        return
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        feed(cache, {"queues": [["q", {}]], "podgroups": [["j", "q", 1]]})
        book = ShapeBook()
        candidates = []
        for i, candidate in enumerate(row["candidates"]):
            body = msgspec.to_builtins(objects.pod([f"p{i}", "j", "-", 1, "1G"]))
            body["metadata"]["namespace"] = candidate["ns"]
            body["spec"]["priorityClassName"] = candidate.get("priorityClassName", "")
            candidates.append(Task(task_of(msgspec.convert(body, records.Pod), book), -1))
        session = open_session(cache, [PluginEntry(plugin)])
        (job,) = session.jobs.values()
        found = session.preemptable(candidates[0], job, [(job, task) for task in candidates])
        got = [ORDINALS[candidates.index(task)] for _, task in found]
        yield Result(f"{name}.{number}", [] if got == row["victims"] else [f"got {got}, want {row['victims']}"])


def open_session(cache: Cache, entries: list[PluginEntry]) -> Session:
    """A session with these plugins in one tier."""
    return Session(cache.snapshot(), Configuration((), (tuple(entries),)), registry.plugins(), Ports(objects.NOW), uid="session")


TOLERANCE = 1e-2
ORDINALS = ("first", "second", "third", "fourth")
TABLE_KINDS: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Result]]] = {
    "enqueueVote": enqueue_vote,
    "gangSkipTable": gang_skip,
    "score": score,
    "switches": switches,
    "victimFilter": victim_filter,
}
