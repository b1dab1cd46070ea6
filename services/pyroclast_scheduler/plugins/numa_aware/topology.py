"""The division of the CPUs of a machine. Sets of CPUs are bits of integers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The CPUs of a node by NUMA node, socket and core. Layouts are compared by identity, and nodes of one model share one.

    Attributes:
        numa_ids: the numbers of the NUMA nodes.
        numa: the CPUs of each NUMA node, by ascending number. A set of NUMA nodes has the positions in this tuple as bits.
        sockets: the CPUs of each socket, by ascending number.
        cores: the CPUs of each core, by ascending number.
        socket_of: the position of the socket of each core.
        cpus: all CPUs.
        totals: the number of CPUs of each NUMA node.
    """

    numa_ids: tuple[int, ...]
    numa: tuple[int, ...]
    sockets: tuple[int, ...]
    cores: tuple[int, ...]
    socket_of: tuple[int, ...]
    cpus: int = field(init=False)
    totals: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cpus", sum(self.numa))
        object.__setattr__(self, "totals", tuple(each.bit_count() for each in self.numa))

    def room(self, free: int) -> tuple[int, ...]:
        """Return how many of the CPUs `free` each NUMA node has."""
        return tuple((each & free).bit_count() for each in self.numa)

    def within(self, nodes: int) -> int:
        """Return the CPUs of a set of NUMA nodes."""
        return sum(each for at, each in enumerate(self.numa) if nodes >> at & 1)

    def touched(self, cpus: int) -> int:
        """Return the set of NUMA nodes that contain any of `cpus`."""
        return sum(1 << at for at, each in enumerate(self.numa) if each & cpus)
