"""Tables of numa-aware: which nodes take a pod with CPUs of its own, and on which of their NUMA nodes it would be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from pyroclast.api import keys, records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects

from .cpus import FREE, numatopology
from .plugin_tables import QUEUE, compared, fitting, waiting
from .runner import Result, feed


def pod(row: list[Any], *, qos: str = "Guaranteed", policy: str = "") -> records.Pod:
    """A pod as of a scenario, of a class of service and with a NUMA policy."""
    body = msgspec.to_builtins(objects.pod(row))
    resources = body["spec"]["containers"][0]["resources"]
    if qos == "Guaranteed":
        resources["limits"] = dict(resources["requests"])
    if qos == "BestEffort":
        resources.clear()
    if policy:
        body["metadata"]["annotations"][keys.NUMA_TOPOLOGY_POLICY] = policy
    return msgspec.convert(body, records.Pod)


def numa_filter(name: str, case: Mapping[str, Any]) -> Iterator[Result]:
    """Whether node `n` takes the pod, and which of its NUMA nodes the pod would be on."""
    for number, row in enumerate(case["rows"], 1):
        node: Mapping[str, Any] = {} if row["node"] == "any" else row["node"]
        asked = row["pod"]
        cache = Cache()
        feed(cache, {"nodes": [["n", 64, "64Gi"]], "queues": [QUEUE], "podgroups": [["j", "q", 1]]})
        if not node.get("noInfo"):
            policy, manager = node.get("topologyPolicy", "none"), node.get("cpuManager", "none")
            totals = node.get("total")
            cache.object_changed(None, numatopology("n", node.get("free", FREE), totals=totals, policy=policy, manager=manager))
        cache.pod_changed(
            None, pod(["p", "j", "-", asked.get("cpu", 1), "1Gi"], qos=asked["qos"], policy=asked.get("policy", ""))
        )
        commits: list[Commit] = []
        settings = Configuration((), ((PluginEntry("predicates"), PluginEntry("numa-aware")),))
        session = Session(cache.snapshot(), settings, registry.plugins(), Ports(objects.NOW, commits.append), uid="session")
        result = compared(f"{name}.{number}", "fits", fitting(session) == {"n"}, row["fits"])
        if "numa" in row:
            result.differences += compared("", "numa", placed(session, commits), row["numa"]).differences
        yield result


def placed(session: Session, commits: list[Commit]) -> list[int]:
    """The NUMA nodes that the pod is told of when it is bound to the first node."""
    job, task = waiting(session)
    statement = session.statement()
    statement.allocate(job, session.plan(task.facts.shape), [task], np.zeros(1, dtype=np.intp))
    statement.commit()
    (binds,) = commits[-1].binds
    (preparation,) = binds.preparations[task.uid]
    return [int(numa) for numa in json.loads(preparation.annotations[keys.TOPOLOGY_DECISION])["numa"]]
