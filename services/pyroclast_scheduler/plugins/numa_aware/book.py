"""The NUMA requests of pods, and the data that numa-aware stores between sessions.

Stored are parsed Numatopologies, and CPUs that no Numatopology shows as used yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import is_, or_
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import NumaPolicy
from pyroclast.resources import quantity
from pyroclast.resources.pods import quality_of_service
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.plugins.numa_aware.layouts import Inside, Table, read
from pyroclast_scheduler.plugins.numa_aware.policies import Examined, assigned, examined
from pyroclast_scheduler.plugins.numa_aware.topology import Layout

_GUARANTEED: Final = "Guaranteed"
_MILLIS: Final = 1000
SETTLED_SECONDS: Final = 60.0
"""How long after the start of a pod the Numatopology shows its CPUs for sure. Exporters write every few seconds."""
_REMEMBERED: Final = 200_000  # cached results, some hundred bytes each


@dataclass(frozen=True, slots=True)
class Wanted:
    """The exclusive CPUs that a pod requests, and its NUMA policy.

    `policy`: the policy of the pod, empty if it has none. `counts`: the exclusive CPUs by container, 0 for shared CPUs. `names`:
    the names of the containers. Init containers are not included.
    """

    policy: str
    counts: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def takes_cpus(self) -> bool:
        """Whether any container gets exclusive CPUs."""
        return any(self.counts)


def wanted(pod: records.Pod) -> Wanted | None:
    """Return the NUMA request of `pod`; None if its QoS class is not Guaranteed, so that NUMA nodes do not matter."""
    quality = pod.status.qos_class or quality_of_service(msgspec.to_builtins(pod.spec))
    if quality != _GUARANTEED:
        return None
    policy = pod.metadata.annotations.get(keys.NUMA_TOPOLOGY_POLICY, "")
    containers = pod.spec.containers
    return Wanted(
        policy="" if policy == NumaPolicy.NONE else policy,
        counts=tuple(_whole(each.resources.requests.get("cpu", 0)) for each in containers),
        names=tuple(each.name for each in containers),
    )


def _whole(amount: str | int) -> int:
    """Return an amount as whole CPUs, 0 if it is not whole."""
    millis = quantity.parse(amount).millis
    return 0 if millis < 0 or millis % _MILLIS else millis // _MILLIS


@dataclass(frozen=True, slots=True)
class _Held:
    """The CPUs of `residents` that `inside` does not show as used, and the inputs from which they were calculated."""

    inside: Inside
    residents: Sequence[TaskFacts]
    cpus: int
    until: float


class NumaAllocations:
    """The allocations of CPUs in the memory of the scheduler. After a loss, they are calculated again from the pods."""

    is_derived: Final = True

    def __init__(self) -> None:
        self._objects: list[records.Numatopology] = []
        self._names: Sequence[str] = ()
        self._read: dict[str, tuple[records.Numatopology, Inside | None]] = {}
        self._layouts: dict[bytes, Layout] = {}
        self.problems: dict[str, str] = {}
        self._table: Table | None = None
        self._wanted: WeakKeyDictionary[Shape, tuple[Wanted | None]] = WeakKeyDictionary()
        self._assigned: dict[str, dict[str, int]] = {}
        self._held: dict[str, _Held] = {}
        self._examined: dict[tuple[str, Layout, int, tuple[int, ...]], Examined] = {}

    def table(self, objects: Mapping[str, records.Numatopology], names: Sequence[str]) -> Table:
        """Return the table of the nodes `names` with their Numatopologies."""
        listed = list(objects.values())
        is_same = len(listed) == len(self._objects) and all(map(is_, listed, self._objects))
        if not is_same:
            self._objects = listed
            self._read_again(listed)
        if self._table is None or not is_same or names != self._names:
            insides = {name: inside for name, (_, inside) in self._read.items() if inside is not None}
            self._table, self._names = Table.of(names, insides, self.problems), names
        return self._table

    def wanted(self, task: TaskFacts) -> Wanted | None:
        """Return the NUMA request of a pod, None if NUMA nodes do not matter to it."""
        found = self._wanted.get(task.shape)
        if found is None:
            found = self._wanted[task.shape] = (wanted(task.pod),)
        return found[0]

    def examined(self, inside: Inside, free: int, counts: tuple[int, ...]) -> Examined:
        """Return the result for a pod on a node with these free CPUs. Equal results are calculated only once."""
        key = (inside.policy, inside.layout, free, counts)
        found = self._examined.get(key)
        if found is None:
            if len(self._examined) >= _REMEMBERED:
                self._examined.clear()
            found = self._examined[key] = examined(inside.policy, inside.layout, free, counts)
        return found

    def assign(self, node: str, uid: str, cpus: int) -> None:
        """Record that pod `uid` is bound to `node` with these CPUs."""
        self._assigned.setdefault(node, {})[uid] = cpus

    def held(self, node: str, inside: Inside, residents: Sequence[TaskFacts], now: float) -> int:
        """Return the exclusive CPUs of pods on `node` that its Numatopology does not show yet."""
        known = self._held.get(node)
        if known is None or known.inside is not inside or known.residents is not residents or now >= known.until:
            known = self._held[node] = self._hold(node, inside, residents, now)
        return known.cpus

    def _read_again(self, listed: Sequence[records.Numatopology]) -> None:
        before, self._read = self._read, {}
        if len(self._layouts) > len(listed):
            self._layouts.clear()
        for record in listed:
            name = record.metadata.name
            known = before.get(name)
            if known is None or known[0] is not record:
                self.problems.pop(name, None)
                try:
                    known = record, read(record, self._layouts)
                except ValueError as error:
                    known = record, None
                    self.problems[name] = str(error)
            self._read[name] = known
        self.problems = {name: why for name, why in self.problems.items() if name in self._read}
        self._assigned = {node: pods for node, pods in self._assigned.items() if node in self._read}
        self._held = {node: held for node, held in self._held.items() if node in self._read}

    def _hold(self, node: str, inside: Inside, residents: Sequence[TaskFacts], now: float) -> _Held:
        before = self._assigned.pop(node, {})
        open_until = float("inf")
        kept: dict[str, int] = {}
        lost: list[tuple[TaskFacts, Wanted]] = []
        for task in residents:
            want = self.wanted(task)
            if want is None or not want.takes_cpus or task.uid in inside.named:
                continue
            if task.has_started:
                settled = (task.started or 0.0) + SETTLED_SECONDS
                if task.uid not in before or now >= settled:
                    continue
                open_until = min(open_until, settled)
            if task.uid in before:
                kept[task.uid] = before[task.uid]
            else:
                lost.append((task, want))
        taken = reduce(or_, kept.values(), 0)
        for task, want in sorted(lost, key=lambda each: (each[0].created, each[0].uid)):
            free = inside.free & ~inside.reserved & ~taken
            kept[task.uid] = sum(assigned(inside.policy, inside.layout, free, want.counts) or ())
            taken |= kept[task.uid]
        if kept:
            self._assigned[node] = kept
        return _Held(inside, residents, taken, open_until)
