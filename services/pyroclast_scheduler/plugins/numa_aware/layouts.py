"""The structure of a node: its CPUs by core, socket and NUMA node, the policies of its kubelet, and the free CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pyroclast.api import records
from pyroclast.resources import quantity
from pyroclast_scheduler.plugins.numa_aware import cpusets
from pyroclast_scheduler.plugins.numa_aware.assignment import take
from pyroclast_scheduler.plugins.numa_aware.topology import Layout

_CPU: Final = "cpu"
_STATIC: Final = "static"
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The content of a Numatopology. Sets of CPUs are bits.

    Attributes:
        layout: the CPUs by core, socket and NUMA node.
        is_static: whether the kubelet allocates exclusive CPUs.
        policy: the policy of the topology manager.
        has_cpus: whether the Numatopology lists the free CPUs.
        free: the CPUs that no pod uses exclusively.
        reserved: the CPUs that no pod may use exclusively.
        named: UIDs of the pods whose CPUs are already subtracted from `free`.
    """

    layout: Layout
    is_static: bool
    policy: str
    has_cpus: bool
    free: int
    reserved: int
    named: frozenset[str]


def read(record: records.Numatopology, layouts: dict[bytes, Layout]) -> Inside:
    """Parse a Numatopology. `layouts`: the layouts so far, which nodes of one model share.

    Raises:
        ValueError: the object is invalid; the text names the field.
    """
    spec = record.spec
    key = _ENCODER.encode(spec.cpu_detail)
    layout = layouts.get(key)
    if layout is None:
        layout = layouts[key] = layout_of(spec.cpu_detail)
    cpus = spec.numa_resources.get(_CPU)
    try:
        free = cpusets.parse(cpus.allocatable if cpus is not None else "")
    except ValueError as error:
        raise ValueError(f"spec.numares[cpu].allocatable: {error}") from None
    return Inside(
        layout=layout,
        is_static=spec.policies.get("CPUManagerPolicy", "") == _STATIC,
        policy=spec.policies.get("TopologyManagerPolicy", ""),
        has_cpus=cpus is not None,
        free=free & layout.cpus,
        reserved=_reserved(layout, spec.res_reserved.get(_CPU, "0")),
        named=frozenset(
            pod.uid for pod in spec.pod_allocations if any(each.allocations.get(_CPU) for each in pod.container_allocations)
        ),
    )


def layout_of(detail: Mapping[str, records.CpuInfo]) -> Layout:
    """Return the layout in `spec.cpuDetail`.

    Raises:
        ValueError: a key is not the number of a CPU.
    """
    numa: dict[int, int] = {}
    sockets: dict[int, int] = {}
    cores: dict[tuple[int, int, int], int] = {}
    for key, info in detail.items():
        if not (key.isascii() and key.isdecimal() and len(key) < 10 and int(key) <= cpusets.LARGEST):
            raise ValueError(f"spec.cpuDetail: {key!r} is not the number of a CPU")
        bit = 1 << int(key)
        numa[info.numa] = numa.get(info.numa, 0) | bit
        sockets[info.socket] = sockets.get(info.socket, 0) | bit
        core = (info.socket, info.numa, info.core)  # core numbers may repeat on other sockets
        cores[core] = cores.get(core, 0) | bit
    order = sorted(sockets)
    return Layout(
        numa_ids=tuple(sorted(numa)),
        numa=tuple(numa[each] for each in sorted(numa)),
        sockets=tuple(sockets[each] for each in order),
        cores=tuple(cores[each] for each in sorted(cores)),
        socket_of=tuple(order.index(each[0]) for each in sorted(cores)),
    )


def _reserved(layout: Layout, amount: str) -> int:
    """Return the CPUs that are reserved for the system: as many as the amount, rounded up."""
    try:
        count = quantity.parse(amount).value
    except quantity.QuantityError as error:
        raise ValueError(f"spec.resReserved[cpu]: {amount!r}: {error}") from None
    found = take(layout, layout.cpus, max(count, 0))
    return layout.cpus if found is None else found
