"""The Numatopologies of a session: the structure of each node, and a table by row. Nodes of one profile are examined once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast.resources import quantity
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.plugins.numa_aware import topology
from pyroclast_scheduler.plugins.numa_aware.policies import ALIGNING
from pyroclast_scheduler.plugins.numa_aware.topology import Layout, take

_CPU: Final = "cpu"
_STATIC: Final = "static"
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
NO_CPUS: Final = "cpu allocatable map is empty"


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The content of a Numatopology. Sets of CPUs are bits. `is_static`: whether the kubelet allocates exclusive CPUs.

    `policy`: of the topology manager. `has_cpus`: whether the object lists the free CPUs, those that no pod uses exclusively.
    `reserved`: the CPUs that no pod may use exclusively. `named`: UIDs of the pods whose CPUs are already subtracted from `free`.
    """

    layout: Layout
    is_static: bool
    policy: str
    has_cpus: bool
    free: int
    reserved: int
    named: frozenset[str]


def read(record: records.Numatopology, layouts: dict[bytes, Layout]) -> Inside:
    """Parse a Numatopology, or raise a ValueError that names the field. `layouts`: those so far, shared by nodes of one model."""
    spec = record.spec
    key = _ENCODER.encode(spec.cpu_detail)
    layout = layouts.get(key)
    if layout is None:
        layout = layouts[key] = layout_of(spec.cpu_detail)
    cpus = spec.numa_resources.get(_CPU)
    try:
        free = topology.cpus_of(cpus.allocatable if cpus is not None else "")
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
    """Return the layout in `spec.cpuDetail`, or raise ValueError if a key is not the number of a CPU."""
    numa: dict[int, int] = {}
    sockets: dict[int, int] = {}
    cores: dict[tuple[int, int, int], int] = {}
    for key, info in detail.items():
        if not (key.isascii() and key.isdecimal() and len(key) < 10 and int(key) <= topology.LARGEST):
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


class Profile(NamedTuple):
    """The properties of a node that decide whether the node must be examined for a pod."""

    is_there: bool = False
    is_sound: bool = True
    is_static: bool = False
    policy: str = ""
    has_cpus: bool = False


def policy_refusal(profile: Profile, policy: str) -> str | None:
    """Return why a pod with that NUMA policy is refused by all nodes of the profile; None if the node must be examined."""
    if not profile.is_sound:
        return "numa info is malformed"
    if not profile.is_there:
        return "numa info is empty"
    if not profile.is_static:
        return "cpu manager policy isn't static"
    if profile.policy != policy:
        return f"task topology policy[{policy}] is different with node[{profile.policy}]"
    return None if profile.has_cpus else "no topo information"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The NUMA topology of all nodes by row, None if it is unknown. `profiles`: a mask of the nodes of each profile."""

    by_row: Sequence[Inside | None]
    profiles: Mapping[Profile, Bools]

    @classmethod
    def of(cls, names: Sequence[str], found: Mapping[str, Inside], problems: Mapping[str, str]) -> Table:
        """Return the table of the nodes `names`."""
        by_row = [found.get(name) for name in names]
        profiles: dict[Profile, Bools] = {}
        for row, (name, inside) in enumerate(zip(names, by_row, strict=True)):
            profile = Profile(is_sound=name not in problems)
            if inside is not None:
                profile = Profile(is_there=True, is_static=inside.is_static, policy=inside.policy, has_cpus=inside.has_cpus)
            if profile not in profiles:
                profiles[profile] = np.zeros(len(names), dtype=np.bool_)
            profiles[profile][row] = True
        return cls(by_row, profiles)

    def closed(self, policy: str) -> list[Refusal]:
        """Return the nodes that refuse all pods with a NUMA policy, by reason; none for pods without a policy."""
        masks: dict[str, Bools] = {}
        for profile, mask in self.profiles.items() if policy else ():
            why = policy_refusal(profile, policy)
            if why is not None:
                masks[why] = masks[why] | mask if why in masks else mask
        return [Refusal(mask, why, Code.ERROR, is_steady=True) for why, mask in masks.items()]

    def concerned(self, policy: str) -> Bools | None:
        """Return a mask of the nodes to examine for pods with this NUMA policy, empty for none; None if there are none."""
        masks = [
            mask
            for profile, mask in self.profiles.items()
            if (policy_refusal(profile, policy) is None if policy else profile.is_static and profile.policy in ALIGNING)
        ]
        return np.logical_or.reduce(masks) if masks else None
