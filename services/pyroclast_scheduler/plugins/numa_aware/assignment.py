"""The CPUs that a container gets, in the order of the kubelet: whole sockets, whole cores, then single threads."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.plugins.numa_aware import cpusets
from pyroclast_scheduler.plugins.numa_aware.topology import Layout

NONE: Final = 0


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
        ordered += [(-used, idle, left.bit_count(), layout.socket_of[at], at, cpu) for cpu in cpusets.members(left)]
    return sum(1 << cpu for *_, cpu in sorted(ordered)[:count])
