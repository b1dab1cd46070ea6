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

from . import objects
from .plugin_tables import QUEUE, compared, fitting, waiting
from .runner import Result, feed

_FREE = {0: 8, 1: 8}


def numatopology(
    name: str,
    free: Mapping[int, int] = _FREE,
    *,
    totals: Mapping[int, int] | None = None,
    policy: str = "",
    manager: str = "static",
    reserved: str = "0",
    threads: int = 1,
    allocations: Mapping[str, str] | None = None,
    version: str = "1",
) -> records.Numatopology:
    """A node whose NUMA nodes are sockets of their own; the first CPUs of each are taken, the others free.

    Without `totals` each NUMA node is as large as the one with the most free CPUs. `allocations`: CPUs by UID of the pod.
    """
    largest = max(free.values())
    detail: dict[str, Any] = {}
    idle: list[str] = []
    for numa, count in free.items():
        size = largest if totals is None else totals[numa]
        first = len(detail)
        for at in range(size):
            detail[str(first + at)] = {"numa": numa, "socket": numa, "core": (first + at) // threads}
        idle += [str(first + at) for at in range(size - count, size)]
    body = {
        "metadata": {"name": name, "uid": f"numa-{name}", "resourceVersion": version},
        "spec": {
            "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
            "resReserved": {"cpu": reserved},
            "numares": {"cpu": {"allocatable": ",".join(idle), "capacity": len(detail)}},
            "cpuDetail": detail,
            "podAllocations": [
                {"uid": uid, "containerAllocations": [{"name": "c", "allocations": {"cpu": cpus}}]}
                for uid, cpus in (allocations or {}).items()
            ],
        },
    }
    return msgspec.convert(body, records.Numatopology)


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
            cache.object_changed(None, numatopology("n", node.get("free", _FREE), totals=totals, policy=policy, manager=manager))
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
