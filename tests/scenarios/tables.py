"""Cases that are tables of one rule: each row is a case, run against the code of that rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml

from pyroclast.api import records
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.objects import Objects
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import Task, TaskStatus, task_of
from pyroclast_scheduler.plugins.gang import is_left_alone
from pyroclast_scheduler.plugins.predicates import Predicates
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.session_close import close
from pyroclast_scheduler.shell.patches import without_queue_gate
from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents import strategic
from tests.scenarios import devices, gangs, numa, objects, plugin_tables, quotas, topologies

from .runner import Result, cases_of, feed, run


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
        job = Job(JobFacts.of(volcano_group(group), tasks.values(), queue="q"), Dimensions(), {})
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
        options = {"phase": "Pending", "minRes": row["minRes"]}
        feed(cache, {"nodes": case.get("nodes"), "queues": [["q", {}]], "podgroups": [["j", "q", 1, options]]})
        arguments = {f"{plugin}-factor": row["factor"] for plugin in plugins if "factor" in row}
        snapshot = cache.snapshot()
        if row.get("hard"):
            quota = objects.resource_quota(row["hard"], row.get("used") or {})
            snapshot = replace(snapshot, objects=Objects({records.ResourceQuota: {"t/quota": quota}}))
        entries = [PluginEntry(plugin, arguments=arguments) for plugin in sorted(plugins)]
        session = open_session(snapshot, entries)
        (job,) = session.jobs.values()
        differences = [] if session.job_enqueueable(job) is row["admit"] else [f"want admit {row['admit']}"]
        told = [note.message for note in close(session, timestamp="").notes]
        if "event" in row and not any(message.startswith(row["event"]) for message in told):
            differences.append(f"no event {row['event']!r} in {told}")
        yield Result(f"{name}.{number}", differences)


def score(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """The scores that one plugin gives nodes for a pod."""
    plugin = case.get("plugin")
    if plugin == "resource-strategy-fit":
        yield from plugin_tables.strategy_score(name, case)
        return
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
        session = open_session(cache.snapshot(), [PluginEntry(plugin, arguments=case.get("args", {}))])
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
            body["metadata"]["namespace"] = candidate.get("ns", objects.NAMESPACE)
            body["metadata"]["labels"] = candidate.get("labels", {})
            if "cooldown" in candidate:
                placed = objects.timestamp(objects.NOW - objects.duration(candidate["scheduledAgo"]))
                body["metadata"]["labels"] = {"volcano.sh/cooldown-time": candidate["cooldown"]}
                body["status"]["phase"] = "Running"
                body["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": placed}]
            body["spec"]["priorityClassName"] = candidate.get("priorityClassName", "")
            candidates.append(Task(task_of(msgspec.convert(body, records.Pod), book), -1))
        snapshot = cache.snapshot()
        if isinstance(row.get("pdb"), Mapping):
            budget = objects.disruption_budget(row["pdb"])
            snapshot = replace(snapshot, objects=Objects({records.PodDisruptionBudget: {"t/budget": budget}}))
        session = open_session(snapshot, [PluginEntry(plugin)])
        (job,) = session.jobs.values()
        found = session.preemptable(candidates[0], job, [(job, task) for task in candidates])
        got = [ORDINALS[candidates.index(task)] for _, task in found]
        yield Result(f"{name}.{number}", [] if got == row["victims"] else [f"got {got}, want {row['victims']}"])


def drf_victims(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """How many pods of one job drf takes for a pod of another, on a cluster of 10 cpu, 10 G and 100 pods."""
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        nodes = [["n", 10, "10G", {"pods": 100}]]
        feed(cache, {"nodes": nodes, "queues": [["q", {}]], "podgroups": [["p", "q", 1], ["v", "q", 1]]})
        ask, victims = row["preemptor"], row["victimJob"]
        has = [["has", "p", "n", ask["allocated"], 0]] if ask["allocated"] else []
        feed(cache, {"pods": [*has, ["p", "p", "-", ask["pod"], 0]]})
        feed(cache, {"pods": [[f"v{i}", "v", "n", victims["each"], 0] for i in range(victims["pods"])]})
        session = open_session(cache.snapshot(), [PluginEntry("drf")])
        preemptor, victim = session.jobs[f"{objects.NAMESPACE}/p"], session.jobs[f"{objects.NAMESPACE}/v"]
        task = next(each for each in preemptor.tasks if each.status is TaskStatus.PENDING)
        found = session.preemptable(task, preemptor, [(victim, each) for each in victim.tasks])
        yield Result(f"{name}.{number}", [] if len(found) == row["victims"] else [f"got {len(found)}, want {row['victims']}"])


def sla_order(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which of two jobs of one age goes first by the time that it may wait; the one called first by UID where none says."""
    for number, row in enumerate(case["rows"], 1):
        cache = Cache()
        waits = {"b-left": row["left"], "a-right": row["right"]}
        for job, wait in waits.items():
            annotations = {} if wait == "-" else {"sla-waiting-time": wait}
            feed(cache, {"queues": [["q", {}]], "podgroups": [[job, "q", 1, {"annotations": annotations}]]})
        given = {} if row["global"] == "-" else {"sla-waiting-time": 1 if row["global"] == "1 (integer)" else row["global"]}
        session = open_session(cache.snapshot(), [PluginEntry("sla", arguments=given)])
        first = min(session.jobs.values(), key=session.job_key).facts.name
        yield Result(f"{name}.{number}", [] if (first == "b-left") == row["leftFirst"] else [f"{first} goes first"])


def gates(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which gates a pod has once that of its queue is taken away."""
    for number, row in enumerate(case["rows"], 1):
        pod = {"spec": {"schedulingGates": [{"name": gate} for gate in row["gates"]]}}
        after = strategic.merge(pod, without_queue_gate(), kinds.strategy_of("", "v1", "Pod").schema)
        got = [gate["name"] for gate in after["spec"].get("schedulingGates", [])]
        yield Result(f"{name}.{number}", [] if got == row["after"] else [f"got {got}"])


def again_topology_aware(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """The cases that the title names, in the topology-aware mode of preempt."""
    first, last, profile = re.findall(r"^(\w+)-(\w+) .*profile (\w+)", case["title"])[0]
    for each in yaml.safe_load((Path(__file__).parent / "cases" / "preempt.yaml").read_text()):
        if first <= each["id"] <= last:
            for label, variant in cases_of(each):
                yield run(f"{name}.{label}", {**variant, "profile": profile})


def open_session(snapshot: Snapshot, entries: list[PluginEntry]) -> Session:
    """A session with these plugins in one tier."""
    return Session(snapshot, Configuration((), (tuple(entries),)), registry.plugins(), Ports(objects.NOW), uid="session")


TOLERANCE = 1e-2
ORDINALS = ("first", "second", "third", "fourth")
TABLE_KINDS: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Result]]] = {
    "args": topologies.arguments,
    "bundleTable": gangs.bundles,
    "gateTable": gates,
    "gpushare": devices.shared,
    "vgpuExclusive": devices.exclusive,
    "gangVictims": gangs.victims,
    "nominationTable": gangs.nominations,
    "meta": again_topology_aware,
    "gradientFilter": topologies.gradient_filter,
    "estimator": plugin_tables.estimator,
    "filter": plugin_tables.proportional,
    "extender": plugin_tables.extender,
    "numaFilter": numa.numa_filter,
    "nodegroup": plugin_tables.nodegroup,
    "parse": plugin_tables.window,
    "tdm": plugin_tables.tdm,
    "tdmVictims": plugin_tables.tdm_victims,
    "usage": plugin_tables.usage,
    "wildcard": plugin_tables.wildcard,
    "draTable": quotas.accounting,
    "drfVictims": drf_victims,
    "enqueueVote": enqueue_vote,
    "gangSkipTable": gang_skip,
    "jobOrder": sla_order,
    "score": score,
    "switches": switches,
    "victimFilter": victim_filter,
}
