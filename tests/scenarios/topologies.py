"""Cases of network topology and sub-groups: rows over a topology, written out as cases of clusters; and tables of scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.plugins.network_topology_aware import TopologySettings
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.extension_points import Purpose
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects

from .runner import Result, feed, run

TOPOLOGIES: Mapping[str, Mapping[str, Any]] = {
    "T4": {
        "hypernodes": {"ra": [1, ["a1", "a2"]], "rb": [1, ["b1", "b2"]], "sp": [2, ["ra", "rb"]]},
        "nodes": ["a1", "a2", "b1", "b2"],
    },
    "T8": {
        "hypernodes": {
            **{f"r{i}": [1, [f"r{i}-1", f"r{i}-2"]] for i in (1, 2, 3, 4)},
            "s1": [2, ["r1", "r2"]],
            "s2": [2, ["r3", "r4"]],
            "top": [3, ["s1", "s2"]],
        },
        "nodes": [f"r{i}-{j}" for i in (1, 2, 3, 4) for j in (1, 2)],
    },
    "two racks without parent": {
        "hypernodes": {"ra": [1, ["a1", "a2"]], "rb": [1, ["b1", "b2"]]},
        "nodes": ["a1", "a2", "b1", "b2"],
    },
}
SPLITS = {"spec": "volcano.sh/task-spec", "inst": "volcano.sh/task-instance"}
TOLERANCE = 1e-2


def is_topology(case: Mapping[str, Any]) -> bool:
    """Whether a case is rows over a topology or of sub-groups."""
    rows = case.get("rows")
    return case.get("kind") is None and isinstance(rows, list) and any("min" in row for row in rows)


def rows_of(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Each row as a case of its own."""
    for number, row in enumerate(case["rows"], 1):
        merged = {**case, **row}
        yield run(f"{name}.{number}", _written_out(merged))


def _written_out(case: Mapping[str, Any]) -> dict[str, Any]:
    topology = TOPOLOGIES.get(case.get("topology", ""), {})
    hyper_nodes = case.get("hypernodes") or topology.get("hypernodes") or {}
    size = case.get("nodeSize", [4, "8Gi"])
    names = topology.get("nodes") or sorted({each for _, members in hyper_nodes.values() for each in members} - {*hyper_nodes})
    nodes = case.get("nodes") or [[each, *size] for each in names]
    group = ["j", "q", case["min"], _group_options(case)]
    made: dict[str, Any] = {
        "id": "row",
        "profile": case.get("profile", "SUB" if "sub" in case else "TOPO"),
        "nodes": nodes,
        "queues": [["q", {}]],
        "podgroups": [group],
        "pods": [*_running(case), *_pending(case)],
        "expect": {key: case[key] for key in ("binds", "bind", "perRack") if key in case},
    }
    if hyper_nodes:
        named = {"T06": {1: "rack", 2: "spine"}} if "tierName" in case else {}
        made["hypernodes"] = hyper_nodes
        made["tierNames"] = named.get("T06", {})
    return made


def _group_options(case: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "tierName" in case:
        options["topoName"] = case["tierName"]
    for key in ("topo", "job"):
        if key in case and case[key] != "none":
            options["topo"] = case[key]
    if "at" in case:
        options["annotations"] = {"volcano.sh/job-allocated-hypernode": case["at"]}
    if "sub" in case:
        options["sub"] = case["sub"]
    return options


def _size(case: Mapping[str, Any], text: str = "") -> tuple[Any, Any]:
    if found := re.search(r"\((\d+) cpu, (\d+G)\)", text):
        return int(found[1]), found[2]
    size = case.get("podSize") or ([2, "4G"] if case.get("id") == "G11" else [3, "3G"])
    return (4, "8Gi") if size == "whole node" else tuple(size)


def _labels(text: str) -> dict[str, str]:
    key, _, value = text.partition(" (")[0].partition("=")
    return {SPLITS[key]: value}


def _running(case: Mapping[str, Any]) -> Iterator[list[Any]]:
    running = case.get("running") or {}
    if case.get("topology") == "T8" and not running and "sub" not in case:
        running = {"r1": "r1-1", "r2": "r1-2"}
    number = 0
    for what, where in running.items():
        for node in where if isinstance(where, list) else [where]:
            number += 1
            options = {"labels": _labels(what)} if "=" in what else {}
            yield [f"r{number}", "j", node, *_size(case), options]


def _pending(case: Mapping[str, Any]) -> Iterator[list[Any]]:
    if "pods" in case:
        for name, where, options in case["pods"]:
            yield [name, "j", where, *_size(case), options]
        return
    pending = case["pending"]
    for number, what in enumerate([""] * pending if isinstance(pending, int) else pending, 1):
        options = {"labels": _labels(what)} if "=" in what else {}
        yield [f"p{number}", "j", "-", *_size(case, what), options]


def is_score(case: Mapping[str, Any]) -> bool:
    """Whether a table of scores is one of the network's."""
    return case.get("kind") == "score" and "plugin" not in case


def score(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Scores of nodes for pods with a topology and without one, and of hypernodes."""
    if "rows" not in case:
        yield _compared(name, _hyper_node_scores(), case["scores"])
        return
    for number, row in enumerate(case["rows"], 1):
        got = _near(row) if "A" in row else _normal(row)
        yield _compared(f"{name}.{number}", got, row["scores"])


def _compared(name: str, got: Mapping[str, float] | None, want: Any) -> Result:
    if want == "none" or got is None:
        return Result(name, [] if want == "none" and got is None else [f"got {got}, want {want}"])
    wrong = {
        each: got[each.removesuffix(" nodes")]
        for each, value in want.items()
        if abs(got[each.removesuffix(" nodes")] - value) > TOLERANCE
    }
    return Result(name, [f"got {wrong}, want {want}"] if wrong else [])


def opened(tables: Mapping[str, Any], arguments: Mapping[str, Any]) -> Session:
    cache = Cache()
    feed(cache, {"queues": [["q", {}]], **tables})
    settings = Configuration((), ((PluginEntry("network-topology-aware", arguments=arguments),),))
    return Session(cache.snapshot(), settings, registry.plugins(), Ports(objects.NOW), uid="session")


def _near(row: Mapping[str, Any]) -> dict[str, float] | None:
    topology = TOPOLOGIES[row["topology"]]
    tasks = row.get("tasks", {})
    pods: list[list[Any]] = []
    for what, count in tasks.items():
        if what.startswith("in "):
            nodes = topology["hypernodes"][what.removeprefix("in ")][1]
            pods += [[f"on-{what[3:]}-{i}", "j", nodes[i % len(nodes)], 0, 0] for i in range(count)]
    pods += [[f"p{i}", "j", "-", 1, "1G"] for i in range(max(1, tasks.get("total", 1) - len(pods)))]
    annotations = {"volcano.sh/job-allocated-hypernode": row["A"]} if row["A"] else {}
    group = ["j", "q", 1, {"topo": ["hard", 9], "annotations": annotations}]
    tables = {
        "nodes": [[node, 4, "8Gi"] for node in topology["nodes"]],
        "hypernodes": topology["hypernodes"],
        "podgroups": [group],
        "pods": pods,
    }
    session = opened(tables, {"weight": row.get("weight", 1)})
    (job,) = session.jobs.values()
    (sub_job,) = job.sub_jobs.values()
    sub_job.allocated_hyper_node = row["A"]
    scores = _scores(session)
    if scores is None or not row["A"]:
        return None
    racks = {node: rack for rack, (tier, members) in topology["hypernodes"].items() if tier == 1 for node in members}
    return {racks[node]: float(value) for node, value in zip(session.names, scores, strict=True)}


def _scores(session: Session) -> Any:
    (job,) = session.jobs.values()
    task = next(each for each in job.tasks if each.status is TaskStatus.PENDING)
    plan = session.plan(task.facts.shape)
    return session.batch_scores(job, task, plan, np.ones(len(session.names), dtype=np.bool_))


T10 = {
    "ra": [1, ["a1", "a2"]],
    "rb": [1, ["b1", "b2"]],
    "rc": [1, ["c1", "c2"]],
    "sa": [2, ["ra", "rb"]],
    "sc": [2, ["rc"]],
    "top": [3, ["sa", "sc"]],
}
T10_SIZES = {"a": (4, "8Gi"), "b": (8, "8Gi"), "c": (4, "16Gi")}


def _t10(pods: list[list[Any]], group: dict[str, Any]) -> dict[str, Any]:
    nodes = [[f"{rack}{i}", *T10_SIZES[rack]] for rack in "abc" for i in (1, 2)]
    return {"nodes": nodes, "hypernodes": T10, "podgroups": [["j", "q", 1, group]], "pods": pods}


def _normal(row: Mapping[str, Any]) -> dict[str, float] | None:
    full = [[f"u{i}", "j", f"a{i}", 4, "8Gi"] for i in (1, 2)] if row.get("used") == "ra full" else []
    session = opened(_t10([*full, ["p", "j", "-", 2, "4Gi"]], {}), row["args"])
    scores = _scores(session)
    return None if scores is None else {f"r{name[0]}": float(value) for name, value in zip(session.names, scores, strict=True)}


def _hyper_node_scores() -> dict[str, float]:
    session = opened(_t10([[f"p{i}", "j", "-", 4, "8Gi"] for i in (1, 2)], {"topo": ["hard", 9]}), {})
    (job,) = session.jobs.values()
    (sub_job,) = job.sub_jobs.values()
    return {name: float(session.hyper_node_scores(job, sub_job, [session.hyper_nodes[name]])[0]) for name in session.hyper_nodes}


def gradient_filter(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether a domain of 40 cpu is a candidate by what is idle there, now and later."""
    for number, row in enumerate(case["rows"], 1):
        used = 40 - row["idle"]
        shift = row["futureIdle"] - row["idle"]
        pods: list[list[Any]] = [["u", "other", "n", used - max(shift, 0), 0]] if used > max(shift, 0) else []
        if shift > 0:
            pods.append(["going", "other", "n", shift, 0, {"releasing": True}])
        pods.append(["p", "j", "-", row["need"], 0])
        tables = {
            "nodes": [["n", 40, "8Gi"], ["m", 1, "1Gi"]],
            "hypernodes": {"d": [1, ["n"]]},
            "podgroups": [["other", "q", 1], ["j", "q", 1, {"topo": ["hard", 1], "minRes": {"cpu": row["need"]}}]],
            "pods": pods,
        }
        session = opened(tables, {})
        if shift < 0:
            session = _promised(tables, -shift)
        job = session.jobs[f"{objects.NAMESPACE}/j"]
        purpose = Purpose.ALLOCATE if row["purpose"] == "allocate" else Purpose.EVICT
        found = session.hyper_node_gradient(job, None, session.hyper_nodes.top, purpose)
        got = any(each.name == "d" for tier in found for each in tier)
        yield Result(f"{name}.{number}", [] if got == row["candidate"] else [f"got {got}"])


def _promised(tables: Mapping[str, Any], cpu: int) -> Session:
    """A session in which so much of the domain is promised when the plugins look at it."""
    cache = Cache()
    feed(cache, {"queues": [["q", {}]], **tables})
    snapshot = cache.snapshot()
    snapshot.columns.pipelined[0, snapshot.rows["n"]] = cpu * 1000
    settings = Configuration((), ((PluginEntry("network-topology-aware"),),))
    return Session(snapshot, settings, registry.plugins(), Ports(objects.NOW), uid="session")


def arguments(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """What the arguments of the plugin mean."""
    for number, row in enumerate(case["rows"], 1):
        got = TopologySettings.of(Arguments(row["in"]))
        resources = {key: value for key, value in got.resources.items() if key not in {"cpu", "memory"}}
        seen = {
            "weight": got.weight,
            "cpu": got.resources["cpu"],
            "memory": got.resources["memory"],
            "resources": resources,
            "normalPod": got.scores_normal_pods,
            "fading": got.fading,
        }
        yield Result(f"{name}.{number}", [] if seen == row["out"] else [f"got {seen}, want {row['out']}"])
