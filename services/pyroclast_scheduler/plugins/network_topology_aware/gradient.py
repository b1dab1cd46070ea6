"""Finds the hypernodes that may contain a job or sub-job: those within its tier limit that have room, lowest tier first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyroclast_scheduler.model.hypernodes import HyperNode, HyperNodes


def search_root(hyper_nodes: HyperNodes, inside: HyperNode, allocated: str, limit: int) -> HyperNode | None:
    """Return the hypernode at or below `inside` at which the search starts; None if no hypernode may be used.

    `allocated`: the hypernode that already contains pods of the job; empty if there is none.
    """
    if not allocated:
        return inside
    allowed = [each for each in hyper_nodes.ancestors(allocated) if each.tier <= limit]
    if not allowed:
        return None
    highest = allowed[-1]
    common = hyper_nodes.common(inside.name, highest.name)
    if common == highest.name:
        return inside
    return highest if common == inside.name else None


def gradient(
    hyper_nodes: HyperNodes, root: HyperNode, limit: int, has_room: Callable[[HyperNode], bool]
) -> list[list[HyperNode]]:
    """Return `root` and its descendants up to tier `limit` for which `has_room` is true, by tier, lowest first."""
    by_tier: dict[int, list[HyperNode]] = {}
    level = [root]
    while level:
        for each in level:
            if each.tier <= limit and has_room(each):
                by_tier.setdefault(each.tier, []).append(each)
        level = [hyper_nodes[name] for each in level for name in each.children if name in hyper_nodes]
    return [by_tier[tier] for tier in sorted(by_tier)]


def cut(found: Sequence[Sequence[HyperNode]], most: int) -> list[list[HyperNode]]:
    """Return `most` hypernodes at most, the highest tiers first.

    Of a tier that exceeds the number, the last ones are returned.
    """
    kept: list[list[HyperNode]] = []
    for tier in reversed(found):
        room = most - sum(map(len, kept))
        if room <= 0:
            break
        kept.append(list(tier[-room:]))
    return kept
