"""Tables of single plugins: nodegroup, resource-strategy-fit, tdm and usage."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.placement.plans import NEVER
from pyroclast_scheduler.plugins import resource_strategy_fit
from pyroclast_scheduler.plugins.extender import is_managed
from pyroclast_scheduler.plugins.tdm import parse_window
from pyroclast_scheduler.plugins.usage import Estimator
from pyroclast_scheduler.session import task_placement
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.ports import NodeUsage, Ports
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.shell.session_inputs import LARGEST_ANSWER, HttpExtender
from tests.scenarios import objects

from .runner import Result, feed

TOLERANCE = 1e-2
QUEUE = ["q", {}]
KINDS = {"Least": "LeastAllocated", "Most": "MostAllocated"}


class _Measured:
    """Fixed measurements of node `n`."""

    def __init__(self, cpu: float, memory: float, *, stale: bool) -> None:
        self._usage = NodeUsage({"10m": cpu}, {"10m": memory}, objects.NOW - (3600 if stale else 10))

    def usage(self) -> Mapping[str, NodeUsage]:
        return {"n": self._usage}


def opened(tables: Mapping[str, Any], entry: PluginEntry, **ports: Any) -> Session:
    cache = Cache()
    feed(cache, {"queues": [QUEUE], "podgroups": [["j", "q", 1]], **tables})
    settings = Configuration((), ((PluginEntry("predicates"), entry),))
    return Session(cache.snapshot(), settings, registry.plugins(), Ports(objects.NOW, **ports), uid="session")


def waiting(session: Session) -> tuple[Job, Task]:
    return next((job, task) for job in session.jobs.values() for task in job.tasks if task.status is TaskStatus.PENDING)


def fitting(session: Session) -> set[str]:
    """The nodes that take the one pod that waits."""
    job, task = waiting(session)
    plan = session.plan(task.facts.shape)
    return {name for row, name in enumerate(session.names) if task_placement.fits(session, job, task, plan, row)}


def scores(session: Session) -> dict[str, float]:
    job, task = waiting(session)
    plan = session.plan(task.facts.shape)
    found = plan.score(np.arange(len(session.names)), 1)[:, 0]
    extra = session.batch_scores(job, task, plan, found != NEVER)
    found = found if extra is None else found + extra
    return {name: float(score) for name, score in zip(session.names, found, strict=True)}


def compared(name: str, what: str, got: Any, want: Any) -> Result:
    is_same = abs(got - want) < TOLERANCE if isinstance(want, int | float) and not isinstance(want, bool) else got == want
    return Result(name, [] if is_same else [f"{what}: got {got}, want {want}"])


def compared_scores(name: str, got: Mapping[str, float], want: Mapping[str, float]) -> Result:
    wrong = {node: got[node] for node, score in want.items() if abs(got[node] - score) > TOLERANCE}
    return Result(name, [f"got {wrong}, want {dict(want)}"] if wrong else [])


def strategy_score(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Scores of resource-strategy-fit: one node, nodes with scalars, or nodes with scarce resources."""
    for number, row in enumerate(case["rows"], 1):
        label = f"{name}.{number}"
        if "score" in row:
            yield compared(label, "score", scores(_one_node(row))["n"], row["score"])
        elif isinstance(case.get("nodes"), Mapping):
            yield compared_scores(label, scores(_scarce(case, row)), row["scores"])
        else:
            yield compared_scores(label, scores(_scalars(row)), row["scores"])


def _one_node(row: Mapping[str, Any]) -> Session:
    node, asked, marks = row.get("node", {}), row.get("pod", {"cpu": 4, "memory": 4}), row.get("podAnnotations", {})
    used = node.get("used", 2)
    names = {"type": "volcano.sh/resource-strategy-scoring-type", "weight": "volcano.sh/resource-strategy-weight"}
    annotations = {names[key]: value for key, value in marks.items()}
    resources = {each: {"type": KINDS[kind], "weight": weight} for each, (kind, weight) in row["resources"].items()}
    arguments = {"resourceStrategyFitWeight": row["weight"], "resources": resources}
    tables = {
        "nodes": [["n", node.get("cpuAllocatable", 8), "8Gi"]],
        "pods": [
            ["u", "j", "n", used if "cpuAllocatable" not in node else 0, f"{used}Gi"],
            ["p", "j", "-", asked["cpu"], f"{asked['memory']}Gi", {"annotations": annotations}],
        ],
    }
    return opened(tables, PluginEntry("resource-strategy-fit", arguments=arguments))


def _scalars(row: Mapping[str, Any]) -> Session:
    """Nodes are called for what they have: `f10` has 10 of x/f, `g10f5` 10 of x/g and 5 of x/f."""
    weights = row.get("weights", {"x/g": 1, "x/f": 1})
    kinds = {"x/g": "MostAllocated", "x/f": "LeastAllocated"}
    resources = {each: {"type": kinds[each], "weight": weight} for each, weight in weights.items()}
    arguments = {"resourceStrategyFitWeight": 10, "resources": resources}
    tables = {
        "nodes": [[each, 4, "8Gi", _resources_of(each)] for each in row["scores"]],
        "pods": [["p", "j", "-", 0, 0, dict(row["pod"])]],
    }
    return opened(tables, PluginEntry("resource-strategy-fit", arguments=arguments))


def _resources_of(name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    letter = ""
    for char in name:
        if char.isdigit():
            found[letter] = found.get(letter, 0) * 10 + int(char)
        else:
            letter = f"x/{char}"
    return found


def _scarce(case: Mapping[str, Any], row: Mapping[str, Any]) -> Session:
    asked = {} if row["pod"] == "cpu only" else {row["pod"].removeprefix("asks "): 1}
    scarce = {"enable": True, "resources": "x/a, x/b", "weight": 10, "resourceWeight": {"x/a": 1, "x/b": 4}}
    arguments = {"resourceStrategyFitWeight": 0, "sra": scarce}
    tables = {
        "nodes": [[name, 8, "8Gi", dict.fromkeys(has, 4)] for name, has in case["nodes"].items()],
        "pods": [["p", "j", "-", 1, "1Gi", asked]],
    }
    return opened(tables, PluginEntry("resource-strategy-fit", arguments=arguments))


def wildcard(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """By which entry of the configuration a resource goes."""
    for number, row in enumerate(case["rows"], 1):
        arguments = Arguments({"resources": {entry: {"type": "MostAllocated", "weight": 1} for entry in row["config"]}})
        known = resource_strategy_fit.strategies(arguments)
        if "resource" in row:
            yield compared(
                f"{name}.{number}", "match", resource_strategy_fit.find(row["resource"], known) or "none", row["match"]
            )
        else:
            yield compared(f"{name}.{number}", "entries", len(known), 0)


def proportional(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether enough stays free beside the devices."""
    section = {
        "enable": True,
        "resources": "x/gpu",
        "resourceProportion": {"x/gpu.cpu": 2, "x/gpu.memory": 8},
    }
    for number, row in enumerate(case["rows"], 1):
        idle, asked = row["idle"], dict(row["pod"])
        extra = {key: value for key, value in asked.items() if "/" in key}
        tables = {
            "nodes": [["n", idle["cpu"], idle["memory"], {"x/gpu": idle["x/gpu"]}]],
            "pods": [["p", "j", "-", asked["cpu"], asked["memory"], extra]],
        }
        session = opened(tables, PluginEntry("resource-strategy-fit", arguments={"proportional": section}))
        yield compared(f"{name}.{number}", "fits", fitting(session) == {"n"}, row["fits"])


def usage(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Filter and score by what a node really uses."""
    for number, row in enumerate(case["rows"], 1):
        weights = row.get("weights", {})
        arguments: dict[str, Any] = {f"{key}.weight": value for key, value in weights.items()}
        if "thresholds" in row:
            arguments["thresholds"] = row["thresholds"]
        measured = _Measured(row["real"]["cpu"], row["real"]["mem"], stale=row.get("stale", False))
        tables = {"nodes": [["n", 8, "16Gi"]], "pods": [["p", "j", "-", 1, "1Gi"]]}
        session = opened(tables, PluginEntry("usage", arguments=arguments), usage=measured)
        job, task = waiting(session)
        errors = task_placement.explain(session, job, task, session.plan(task.facts.shape))
        got = {"fits": fitting(session) == {"n"}, "score": scores(session)["n"]}
        result = Result(f"{name}.{number}")
        for key in ("fits", "score"):
            if key in row:
                result.differences += compared("", key, got[key], row[key]).differences
        if "reason" in row and not any(row["reason"] in reason.lower() for reason in errors.reasons):
            result.differences.append(f"no reason with {row['reason']} in {errors}")
        yield result


def estimator(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """How much pods are taken to use, and what full nodes change about it."""
    for number, row in enumerate(case["rows"], 1):
        yield compared(f"{name}.{number}", "row", *_estimated(row))


def _estimated(row: Mapping[str, Any]) -> tuple[float, float]:
    if "utilisation" in row:
        tables = {"nodes": [["n", f"{row['capacity']}m", "16Gi"]], "pods": [["p", "j", "-", 0, 0]]}
        arguments = {"cpu.weight": 1, "memory.weight": 0, "usage.weight": 1, "estimator.be_cpu": row["shadow"]}
        arguments |= {"estimator.risk_factor": 1.0}
        if row["capacity"]:
            tables["pods"].append(["s", "j", "n", 0, 0, {"phase": "Pending"}])
        session = opened(tables, PluginEntry("usage", arguments=arguments), usage=_Measured(row["realPercent"], 0, stale=False))
        return 1 - scores(session)["n"] / 100, row["utilisation"]
    risk = row.get("risk", row.get("factor", 1))
    if "applied" in row:
        found = Estimator(risk_threshold=row["threshold"], risk_factor=row["factor"], idle_cpu=100)
        best_effort = _shape(0, 0)
        return found.amounts(best_effort, np.array([row["load"]]))[0, 0] / 100, row["applied"]
    always = {"risk_threshold": 0.0, "risk_factor": risk}
    if "bestEffort" in row:
        return Estimator(idle_cpu=row["bestEffort"], **always).amounts(_shape(0, 0), np.zeros(1))[0, 0], row["estimate"]
    found = Estimator(row["requestRatio"], row["burstRatio"], **always)
    return found.amounts(_shape(row["request"], row["limit"]), np.zeros(1))[0, 0], row["estimate"]


def _shape(request: int, limit: int) -> Any:
    body = msgspec.to_builtins(objects.pod(["p", "j", "-", f"{request}m", 0]))
    if limit:
        body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": f"{limit}m"}
    cache = Cache()
    cache.pod_changed(None, msgspec.convert(body, records.Pod))
    return cache.tasks["t-p"].shape


def nodegroup(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Nodes by group that take a pod of 2 cpu and 4Gi of a queue with limits per group."""
    for number, row in enumerate(case["rows"], 1):
        affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g1", "g2"]}}
        annotations = {} if row["limits"] == "absent" else {"volcano.sh/nodegroup-resource-limits": row["limits"]}
        labels = {group: {"labels": {"volcano.sh/nodegroup-name": group}} for group in ("g1", "g2")}
        used = row.get("usedInG1")
        pods: list[Any] = [["p", "j", "-", 2, "4Gi"]]
        pods += [["u", "j", "g1", used["cpu"], used["memory"]]] if used else []
        pods += [["first", "j", "-", 2, "4Gi"]] if "sequence" in row else []
        tables = {
            "nodes": [[group, 16, "64Gi", options] for group, options in labels.items()],
            "queues": [["q", {"affinity": affinity, "annotations": annotations}]],
            "pods": pods,
        }
        session = opened(tables, PluginEntry("nodegroup"))
        if "sequence" in row:
            (job,) = session.jobs.values()
            first = next(task for task in job.tasks if task.facts.name == "first")
            session.statement().allocate(job, session.plan(first.facts.shape), [first], np.zeros(1, dtype=np.intp))
        yield compared(f"{name}.{number}", "fits", sorted(fitting(session)), row["fits"])


def window(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """How long the hours of a zone are."""
    for number, row in enumerate(case["rows"], 1):
        try:
            got: Any = parse_window(row["in"]).length
        except ValueError:
            got = "error"
        yield compared(f"{name}.{number}", "window", got, row.get("seconds", "error"))


def _hours(*, is_open: bool) -> str:
    """Hours that hold now, or do not, in the time zone of this process."""
    now = datetime.fromtimestamp(objects.NOW, UTC).astimezone()
    return "0:00-0:00" if is_open else f"{(now.hour + 2) % 24}:00-{(now.hour + 3) % 24}:00"


def tdm(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Nodes n1 and n2 in an open zone, n3 and n4 in none, n5 in a closed one."""
    zones = {"n1": "za", "n2": "za", "n3": "", "n4": "", "n5": "zb"}
    arguments = {"tdm.revocable-zone.za": _hours(is_open=True), "tdm.revocable-zone.zb": _hours(is_open=False)}
    for number, row in enumerate(case["rows"], 1):
        annotations = {"volcano.sh/revocable-zone": "*"} if "revocable" in row["pod"] else {}
        labels = {node: {"volcano.sh/revocable-zone": zone} if zone else {} for node, zone in zones.items()}
        tables = {
            "nodes": [[node, 8, "16Gi", {"labels": each}] for node, each in labels.items()],
            "pods": [["p", "j", "-", 1, "1Gi", {"annotations": annotations}]],
        }
        session = opened(tables, PluginEntry("tdm", arguments=arguments))
        result = compared(f"{name}.{number}", "fits", sorted(fitting(session)), row["fits"])
        result.differences += compared_scores("", scores(session), row["scores"]).differences
        yield result


def tdm_victims(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """How many pods leave a zone, by the disruption budgets of their jobs."""
    for number, row in enumerate(case["rows"], 1):
        jobs = row.get("jobs", [row])
        groups, pods = [], []
        for at, job in enumerate(jobs):
            budget = {f"volcano.sh/jdb-{key}": str(value) for key, value in job["budget"].items()}
            groups.append([f"j{at}", "q", 1, {"annotations": budget}])
            pods += [[f"p{at}-{i}", f"j{at}", "n", 1, "1G", {"pre": i < job["pre"]}] for i in range(job["running"])]
        nodes = [["n", 64, "64Gi", {"labels": {"volcano.sh/revocable-zone": "z"}, "pods": 100}]]
        arguments = {"tdm.revocable-zone.z": _hours(is_open=row["zone"] == "active")}
        session = opened({"nodes": nodes, "podgroups": groups, "pods": pods}, PluginEntry("tdm", arguments=arguments))
        running = [(job, task) for job in session.jobs.values() for task in job.tasks]
        yield compared(f"{name}.{number}", "victims", len(session.victim_tasks(running)), row["victims"])


def extender(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Which pods an extender is asked about; without rows: that an answer that is too large is none."""
    if "rows" not in case:
        yield Result(name, _too_large())
        return
    for number, row in enumerate(case["rows"], 1):
        found = re.match(r"(\S+/\S+) in (an init container|\w+)", row["pod"])
        resources = {found[2] if found[2] in {"requests", "limits"} else "requests": {found[1]: "1"}} if found else {}
        container = {"name": "c", "resources": resources}
        kind = "initContainers" if found and "init" in found[2] else "containers"
        spec = msgspec.convert({kind: [container]}, records.PodSpec)
        yield compared(f"{name}.{number}", "interested", is_managed(spec, frozenset(row["managed"])), row["interested"])


def _too_large() -> list[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))  # closing with the rest unread would reset the connection
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(b"x" * (LARGEST_ANSWER + 1))

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        HttpExtender().post(f"http://127.0.0.1:{server.server_port}/", b"{}", timeout=30)
    except OSError as error:
        return [] if "larger" in str(error) else [f"another error: {error}"]
    finally:
        thread.join()
        server.server_close()
    return ["the answer was taken"]
