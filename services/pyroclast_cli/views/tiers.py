"""Computes the HyperNodes that contain a node, directly or through HyperNodes of lower tiers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode, reading
from pyroclast.lifecycle.hypernodes.members import member_names


def tier_groups(hyper_nodes: Iterable[Mapping[str, Any]], nodes: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return `tier N: NAME` of all HyperNodes that contain each node, by node name. `nodes` maps node names to labels."""
    records = [reading.convert(each, HyperNode) for each in hyper_nodes]
    known = {each.metadata.name: each for each in records}
    inside = {name: _nodes_of(each, known, nodes) for name, each in known.items()}
    found: dict[str, list[str]] = {name: [] for name in nodes}
    for hyper_node, names in inside.items():
        for name in names & nodes.keys():
            found[name].append(f"tier {known[hyper_node].spec.tier}: {hyper_node}")
    return found


def _nodes_of(top: HyperNode, known: Mapping[str, HyperNode], nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    todo = [top]
    while todo:
        one = todo.pop()
        if one.metadata.name in seen:  # HyperNodes that contain each other
            continue
        seen.add(one.metadata.name)
        for member in one.spec.members:
            alone = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, members=(member,)))
            if member.type is MemberType.NODE:
                found |= member_names(alone, nodes)
            else:
                below = member_names(alone, {name: each.metadata.labels for name, each in known.items()})
                todo += [known[name] for name in below if name in known]
    return found
