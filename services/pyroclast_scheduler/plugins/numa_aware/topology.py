"""The CPUs of a machine, and those that a container gets, in the order of the kubelet: sockets, whole cores, then threads.

Sets of CPUs are bits of integers; the kernel writes them as `0,2-4`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

LARGEST: Final = 8191  # the highest CPU number that a Linux kernel supports
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
NONE: Final = 0


def cpus_of(listed: str) -> int:
    """Return the set of CPUs in a list; empty for an empty text. A malformed text or too high a number raises ValueError."""
    found = 0
    for part in listed.split(",") if listed.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is neither a CPU nor a range such as 2-4")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        if last > LARGEST:
            raise ValueError(f"{part.strip()!r} names a CPU beyond {LARGEST}")
        found |= (1 << (last + 1)) - (1 << first)
    return found


def members(cpus: int) -> Iterator[int]:
    """Yield the CPUs of a set in ascending order."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The CPUs of a node by NUMA node, socket and core. Layouts are compared by identity, and nodes of one model share one.

    `numa`, `sockets`, `cores`: the CPUs of each, by ascending number. A set of NUMA nodes has the positions in `numa` as bits.
    `socket_of`: the position of the socket of each core. `totals`: the number of CPUs of each NUMA node.
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


def take_near(layout: Layout, free: int, nodes: int, count: int) -> int | None:
    """Return `count` of the CPUs `free`, preferably those of the NUMA nodes `nodes`; None if there are too few."""
    near = free & layout.within(nodes)
    aligned = take(layout, near, min(count, near.bit_count())) or NONE
    rest = take(layout, free & ~aligned, count - aligned.bit_count())
    return None if rest is None else aligned | rest


def take(layout: Layout, free: int, count: int) -> int | None:
    """Return `count` of the CPUs `free`; None if there are too few."""
    if count > free.bit_count():
        return None
    taken = NONE
    for socket in layout.sockets:
        if not socket & ~free and socket.bit_count() <= count - taken.bit_count():
            taken |= socket
    if taken.bit_count() < count:
        taken |= _cores(layout, free & ~taken, count - taken.bit_count())
    if taken.bit_count() < count:
        taken |= _threads(layout, free & ~taken, taken, count - taken.bit_count())
    return taken


def _cores(layout: Layout, free: int, count: int) -> int:
    """Return whole cores, first those of the sockets with the fewest free cores."""
    whole = [at for at, core in enumerate(layout.cores) if not core & ~free]
    on_socket = [0] * len(layout.sockets)
    for at in whole:
        on_socket[layout.socket_of[at]] += 1
    taken = NONE
    for at in sorted(whole, key=lambda at: (on_socket[layout.socket_of[at]], layout.socket_of[at], at)):
        if layout.cores[at].bit_count() <= count - taken.bit_count():
            taken |= layout.cores[at]
    return taken


def _threads(layout: Layout, free: int, taken: int, count: int) -> int:
    """Return single threads: on sockets in use first, then on the sockets and cores with the fewest free threads."""
    ordered: list[tuple[int, int, int, int, int, int]] = []
    for at, core in enumerate(layout.cores):
        left = core & free
        socket = layout.sockets[layout.socket_of[at]]
        used, idle = (socket & taken).bit_count(), (socket & free).bit_count()
        ordered += [(-used, idle, left.bit_count(), layout.socket_of[at], at, cpu) for cpu in members(left)]
    return sum(1 << cpu for *_, cpu in sorted(ordered)[:count])
