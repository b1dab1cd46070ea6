"""How the CPUs of a machine are divided; sets of CPUs are bits of whole numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The CPUs of a node: their NUMA nodes, sockets and cores.

    `numa`, `sockets`, `cores`: the CPUs of each, by ascending number; `numa_ids`: the numbers of the NUMA nodes.

    `socket_of`: for each core the position of its socket. `cpus`: all of them; `totals`: how many each NUMA node has. Positions
    in `numa` are what sets of NUMA nodes are made of. Compared by identity: nodes of one make share theirs.
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
        """How many of the CPUs `free` each NUMA node has."""
        return tuple((each & free).bit_count() for each in self.numa)

    def within(self, nodes: int) -> int:
        """The CPUs of a set of NUMA nodes."""
        return sum(each for at, each in enumerate(self.numa) if nodes >> at & 1)

    def touched(self, cpus: int) -> int:
        """The set of NUMA nodes on which any of `cpus` is."""
        return sum(1 << at for at, each in enumerate(self.numa) if each & cpus)
