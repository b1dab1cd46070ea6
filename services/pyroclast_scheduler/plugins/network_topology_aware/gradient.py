"""Which hypernodes may hold a job or a part of it: those below its limit that have room, lowest tier first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyroclast_scheduler.model.hypernodes import HyperNode, HyperNodes

__all__ = ["cut", "gradient", "search_root"]


def search_root(hyper_nodes: HyperNodes, inside: HyperNode, allocated: str, limit: int) -> HyperNode | None:
    """Where to begin below `inside`, when pods are in `allocated` already; None: nothing may be used."""
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
    """`root` and what is below it up to tier `limit` where `has_room`, by tier, lowest first."""
    by_tier: dict[int, list[HyperNode]] = {}
    level = [root]
    while level:
        for each in level:
            if each.tier <= limit and has_room(each):
                by_tier.setdefault(each.tier, []).append(each)
        level = [hyper_nodes[name] for each in level for name in each.children if name in hyper_nodes]
    return [by_tier[tier] for tier in sorted(by_tier)]


def cut(found: Sequence[Sequence[HyperNode]], most: int) -> list[list[HyperNode]]:
    """The widest tiers first, `most` hypernodes in all; of the tier that goes beyond, its last ones."""
    kept: list[list[HyperNode]] = []
    for tier in reversed(found):
        room = most - sum(map(len, kept))
        if room <= 0:
            break
        kept.append(list(tier[-room:]))
    return kept
