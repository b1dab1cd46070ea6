"""Finds a cycle in a graph, in time linear in the number of edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of one cycle, with the first name again at the end; empty without a cycle. Unknown targets are ignored."""
    finished: set[str] = set()
    for start in edges:
        if start in finished:
            continue
        path: list[str] = [start]
        on_path = {start}
        pending: list[Iterator[str]] = [iter(edges[start])]
        while pending:
            target = next(pending[-1], None)
            if target is None:
                pending.pop()
                done = path.pop()
                on_path.discard(done)
                finished.add(done)
            elif target in on_path:
                return [*path[path.index(target) :], target]
            elif target in edges and target not in finished:
                path.append(target)
                on_path.add(target)
                pending.append(iter(edges[target]))
    return []
