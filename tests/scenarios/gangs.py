"""Tables of the gang actions: who goes in a domain, how jobs are split into bundles, and nominations of sub-jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.eviction.victims import split
from pyroclast_scheduler.model.hypernodes import TOP
from pyroclast_scheduler.plugins.network_topology_aware import cut
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects

from .runner import Result, feed

PLUGINS = ("gang", "priority", "conformance", "predicates")
BIG = {"nodes": [["n", 4, "8Gi"]]}


def opened(tables: Mapping[str, Any], commits: list[Commit] | None = None, plugins: tuple[str, ...] = PLUGINS) -> Session:
    cache = Cache()
    feed(cache, tables)
    settings = Configuration((), (tuple(PluginEntry(each) for each in plugins),))
    ports = Ports(objects.NOW, (commits if commits is not None else []).append)
    return Session(cache.snapshot(), settings, registry.plugins(), ports, uid="session")


def victims(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Who goes in one domain for a gang that has no room."""
    for number, row in enumerate(case["rows"], 1):
        label = f"{name}.{number}"
        if "gradients" in row:
            yield _domains(label, row)
        elif "effective" in row:
            arguments = Arguments(row["argument"])
            registry.actions()["gangpreempt"](opened({"queues": [["q", {}]], **BIG}), arguments)
            got = arguments.warnings
            yield Result(label, [] if any(str(row["effective"]) in each for each in got) else [f"no warning in {got}"])
        else:
            yield _victims(label, row)


def _victims(label: str, row: Mapping[str, Any]) -> Result:
    jobs = row.get("victimJobs") or [row["victimJob"]]
    queues: list[list[Any]] = [["mine", {}]]
    groups: list[list[Any]] = [["wants", "mine", 4, {"class": 100}]]
    pods: list[list[Any]] = [[f"p{i}", "wants", "-", 1, "1G"] for i in range(4)]
    size = 4 // len(jobs)
    for at, job in enumerate(jobs):
        queue = "mine" if job["queue"] == "same" else job["queue"]
        if queue != "mine":
            queues.append([queue, {"reclaimable": job.get("queueReclaimable", True)}])
        marked = job.get("podGroupPreemptable", "unset")
        annotations = {} if marked == "unset" else {"volcano.sh/preemptable": marked}
        groups.append([f"v{at}", queue, job.get("minMember", 1), {"class": job.get("class", 0), "annotations": annotations}])
        pods.append([f"v{at}", f"v{at}", "n", size, "1G"])
    if row["action"] == "gangreclaim":  # one of the jobs leaves enough room, the other may not go
        groups[0][2], pods = size, [*pods[:size], *pods[4:]]
    commits: list[Commit] = []
    session = opened({"queues": queues, "podgroups": groups, "pods": pods, **BIG}, commits)
    arguments = {key: row[key] for key in ("allowWholeBundle",) if key in row}
    registry.actions()[row["action"]](session, Arguments(arguments))
    got = [eviction.task.name for commit in commits for eviction in commit.evictions]
    want = row["victims"]
    is_right = len(got) == want if isinstance(want, int) else got == ["v0"]
    return Result(label, [] if is_right else [f"got {got}, want {want}"])


def _domains(label: str, row: Mapping[str, Any]) -> Result:
    flat = list(dict.fromkeys(name for tier in row["gradients"] for name in tier))[: row.get("maxDomains", 8)]
    got = flat or [TOP]
    assert cut([], 8) == []
    return Result(label, [] if got == row["domains"] else [f"got {got}"])


def bundles(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """How the pods of a job in one domain are split into those that it can spare and the others."""
    for number, row in enumerate(case["rows"], 1):
        group, pods, local = _job_of(row)
        session = opened({"queues": [["q", {}]], "podgroups": [group], "pods": pods, "nodes": [["n", 99, "99Gi", {"pods": 99}]]})
        (job,) = session.jobs.values()
        tasks = [task for task in job.tasks if task.facts.name in local]
        found = {each.is_whole: [task.facts.name for task in each.tasks] for each in split(job, tasks)}
        got = (found.get(False, []), found.get(True, []))
        yield Result(f"{name}.{number}", _differs(got, row, local))


def _differs(got: tuple[list[str], list[str]], row: Mapping[str, Any], local: list[str]) -> list[str]:
    found = []
    for what, names in (("safe", got[0]), ("whole", got[1])):
        want = row[what]
        if isinstance(want, list):
            is_right = names == want
        else:
            count = int(digits[0]) if (digits := re.findall(r"^\d+", str(want))) else 1
            is_right = len(names) == count and (what == "whole" or names == local[:count])
        if not is_right:
            found.append(f"{what}: got {names}, want {want}")
    return found


def _job_of(row: Mapping[str, Any]) -> tuple[list[Any], list[list[Any]], list[str]]:
    """The PodGroup, its pods, and the names of those in the domain, the least important first."""
    groups = row.get("groups")
    if groups is None:
        count = int(re.findall(r"\d+", str(row["running"]))[0])
        role = {"role": "work"} if row.get("roles") else {}
        pods = [[f"p{i}", "j", "n", 1, "1G", {"prio": i, **role}] for i in range(count)]
        return ["j", "q", row["minMember"], {"roles": row.get("roles", {})}], pods, [pod[0] for pod in pods]
    if isinstance(groups, str):
        sizes = [1, 2, 2] if "broken" in groups else [2, 2, 2]
        policy = [["spec", "none", {"size": 2, "minSubGroups": row["minSubGroups"]}]]
        pods = _members("spec", "g", sizes)
        local = [pod[0] for pod in pods if pod[0].endswith("-0")]
        return ["j", "q", row["minMember"], {"sub": policy}], pods, local
    policies, pods, local = [], [], []
    for key, (kind, options) in zip(("spec", "inst"), groups.items(), strict=False):
        size = max(options["running"])
        policies.append([key, "none", {"size": size, "minSubGroups": options["minSubGroups"]}])
        made = _members(key, kind[0], options["running"], role="work" if row.get("roles") else "")
        pods += made
        local.append(made[0][0] if "broken" not in options else next(pod[0] for pod in made if pod[0].startswith(f"{kind[0]}1")))
    renamed = dict(zip(local, row["local"], strict=True))
    pods = [[renamed.get(pod[0], pod[0]), *pod[1:]] for pod in pods]
    return ["j", "q", row["minMember"], {"roles": row.get("roles", {}), "sub": policies}], pods, list(row["local"])


def _members(key: str, prefix: str, sizes: list[int], role: str = "") -> list[list[Any]]:
    label = {"spec": "volcano.sh/task-spec", "inst": "volcano.sh/task-instance"}[key]
    made = []
    for at, size in enumerate(sizes):
        for i in range(size):
            options: dict[str, Any] = {"labels": {label: f"{prefix}{at}"}, "prio": at * 10 + i}
            if role:
                options["role"] = role
            made.append([f"{prefix}{at}-{i}", "j", "n", 1, "1G", options])
    return made


RACKS = {"ra": [1, ["a1"]], "rb": [1, ["b1"]]}


def nominations(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether room that was made for a sub-job is taken, or another place is searched."""
    for number, row in enumerate(case["rows"], 1):
        yield Result(f"{name}.{number}", _nominated(row["case"]))


def _nominated(what: str) -> list[str]:
    node = {"a task has no": "", "not one of the leaf": "b1", "unknown to the session": "gone"}
    nominated = next((each for words, each in node.items() if words in what), "a1")
    is_full = "cannot hold" in what or "allocation itself fails" in what
    pods: list[list[Any]] = [["p", "j", "-", 3, "3G", {"nominated": nominated}]]
    if is_full:
        pods.append(["u", "other", "a1", 3, "3G"])
    session = opened(
        {
            "nodes": [["a1", 4, "8Gi"], ["b1", 4, "8Gi"]],
            "hypernodes": RACKS,
            "queues": [["q", {}]],
            "podgroups": [["j", "q", 1, {"topo": ["hard", 1]}], ["other", "q", 1]],
            "pods": pods,
        },
        plugins=(*PLUGINS, "network-topology-aware"),
    )
    job = session.jobs[f"{objects.NAMESPACE}/j"]
    (sub_job,) = job.sub_jobs.values()
    sub_job.nominated_hyper_node = "gone" if "hypernode unknown" in what else "ra"
    registry.actions()["allocate"](session, Arguments())
    (task,) = job.tasks
    where = session.names[task.row] if task.row >= 0 else ""
    is_searched = sub_job.nominated_hyper_node == ""
    if "all fine" in what:
        return [] if where == "a1" and not is_searched else [f"placed on {where!r}, searched: {is_searched}"]
    if "search was needed" in what:
        return _nominated("nominated hypernode unknown")
    want = "b1" if is_full else where
    return [] if is_searched and where and where == want else [f"placed on {where!r}, searched: {is_searched}"]
