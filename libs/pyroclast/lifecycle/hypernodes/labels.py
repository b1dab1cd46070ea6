"""The network topology from the labels of nodes. A type of network is a list of labels, from the highest tier to the node."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyroclast.api import keys
from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes.discovered import Found

SOURCE: Final = "label"

_LONGEST_NAME: Final = 20
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX: Final = 5
_ATTEMPTS: Final = 20

_Group: TypeAlias = tuple[int, str, str]
"""A group of nodes: its tier (1 is the lowest), and the key and value of the label that its nodes share."""


@dataclass(frozen=True, slots=True)
class NetworkType:
    """A type of network by name; `labels` are the label keys from tier 1 upwards, without the label of the node itself."""

    name: str
    labels: tuple[str, ...]

    @property
    def written(self) -> str:
        """The name, in the form in which names of HyperNodes contain it."""
        return re.sub(r"[^a-z0-9.-]", "-", self.name.lower())


def read_types(configuration: Mapping[str, Any]) -> tuple[NetworkType, ...]:
    """Return the types under `networkTopologyTypes`, without those with too long a name or with the same label twice."""
    types = []
    given = configuration.get("networkTopologyTypes")
    for name, tiers in (given if isinstance(given, dict) else {}).items():
        if not isinstance(tiers, list):
            continue
        labels = [str(tier["nodeLabel"]) for tier in tiers if isinstance(tier, dict) and tier.get("nodeLabel")]
        if len(str(name)) <= _LONGEST_NAME and len(set(labels)) == len(labels):
            types.append(NetworkType(str(name), tuple(reversed(labels[:-1]))))
    return tuple(types)


def discover(types: Sequence[NetworkType], nodes: Mapping[str, Mapping[str, str]], there: Iterable[HyperNode]) -> list[Found]:
    """Return the HyperNodes of all types. `nodes`: labels by node. `there`: existing HyperNodes, whose names are used again.

    A name ends in five characters computed from the label, so that every discovery of the same cluster finds the same names.
    """
    known = sorted(
        (each for each in there if each.metadata.labels.get(keys.NETWORK_TOPOLOGY_SOURCE) == SOURCE),
        key=lambda each: each.metadata.name,
    )
    taken = {each.metadata.name for each in known}
    found = []
    for kind in types:
        below = _groups(kind, nodes)
        names: dict[_Group, str] = {}
        for group in sorted(below):
            names[group] = _name(kind, group, known, taken)
            taken.add(names[group])
        found += [_found(group, below[group], names) for group in sorted(below)]
    return found


def _groups(kind: NetworkType, nodes: Mapping[str, Mapping[str, str]]) -> dict[_Group, set[str | _Group]]:
    """Return the direct members of each group."""
    below: dict[_Group, set[str | _Group]] = {}
    for node, labels in nodes.items():
        child: str | _Group = node
        for tier, key in enumerate(kind.labels, 1):
            if key not in labels:
                break
            group = (tier, key, labels[key])
            below.setdefault(group, set()).add(child)
            child = group
    return below


def _found(group: _Group, below: set[str | _Group], names: Mapping[_Group, str]) -> Found:
    tier, key, value = group
    members = sorted(names[child] if isinstance(child, tuple) else child for child in below)
    member_type = MemberType.NODE if tier == 1 else MemberType.HYPER_NODE
    return Found(names[group], tier, tuple(members), member_type, key, {key: value})


def _name(kind: NetworkType, group: _Group, known: Iterable[HyperNode], taken: Iterable[str]) -> str:
    tier, key, value = group
    prefix = f"hypernode-{kind.written}-tier{tier}"
    for each in known:
        name = each.metadata.name
        if each.metadata.labels.get(key) == value and (name == prefix or name.startswith(f"{prefix}-")):
            return name
    for attempt in range(_ATTEMPTS):
        name = f"{prefix}-{_suffix(f'{kind.name}/{tier}/{key}={value}/{attempt}')}"
        if name not in taken:
            return name
    return f"{prefix}-{hashlib.sha256(f'{key}={value}'.encode()).hexdigest()[:32]}"


def _suffix(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "".join(_LETTERS[number // len(_LETTERS) ** place % len(_LETTERS)] for place in range(_SUFFIX))
