"""Nodes that tell which of their CPUs are on which NUMA node.

numa: {node: {total: {NUMA node: CPUs}, free: {NUMA node: CPUs}, policy, manager, reserved}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pyroclast.api import records

FREE = {0: 8, 1: 8}


def of(tables: Mapping[str, Any]) -> Iterator[records.Numatopology]:
    """The records of all that the tables name."""
    for name, given in (tables.get("numa") or {}).items():
        options = {key: given[key] for key in ("policy", "manager", "reserved") if key in given}
        yield numatopology(name, given["free"], totals=given["total"], **options)


def numatopology(
    name: str,
    free: Mapping[int, int] = FREE,
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
