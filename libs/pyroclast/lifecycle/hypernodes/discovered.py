"""HyperNodes as a source discovers them, the nodes below each, and the writes that make the cluster match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api import keys
from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode, HyperNodeSpec, MemberSelector, reading
from pyroclast.api.types import HYPER_NODES
from pyroclast.resources import selectors
from pyroclast.resources.patterns import BadPattern, compile_pattern


def node_count(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> int:
    """Return the number of members of `hyper_node`. `nodes`: labels by node.

    A member selected by its exact name counts even if it does not exist. A HyperNode among the members counts as one.
    """
    return len(member_names(hyper_node, nodes))


def member_names(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the names of the members of `hyper_node`. `nodes`: labels by node."""
    given = (member.selector for member in hyper_node.spec.members if member.selector is not None)
    return {name for selector in given for name in _resolve(selector, nodes)}


def depends_on_nodes(hyper_node: HyperNode) -> bool:
    """Whether the number of members may change when nodes are added, deleted or relabelled."""
    given = (member.selector for member in hyper_node.spec.members if member.selector is not None)
    return any(selector.regex_match is not None or selector.label_match is not None for selector in given)


def _resolve(selector: MemberSelector, nodes: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    if selector.exact_match is not None:
        return [selector.exact_match.name] if selector.exact_match.name else []
    if selector.regex_match is not None:
        return _matching(selector.regex_match.pattern, nodes)
    labels = selector.label_match
    if labels is None or selectors.is_empty(labels) or not selectors.is_valid(labels):
        return []
    return [name for name, given in nodes.items() if selectors.matches(labels, given)]


def _matching(pattern: str, names: Iterable[str]) -> Iterator[str]:
    try:
        found = compile_pattern(pattern)
    except BadPattern:  # admission refuses such a pattern
        return iter(())
    return (name for name in names if found.search(name))


@dataclass(frozen=True, slots=True)
class Found:
    """A discovered HyperNode; `members` are the names of its direct members, all of the same type."""

    name: str
    tier: int
    members: tuple[str, ...]
    member_type: MemberType = MemberType.NODE
    tier_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """The HyperNodes to create, patch and delete.

    `foreign`: names that HyperNodes of another source already have; these HyperNodes are not changed.
    """

    create: tuple[dict[str, Any], ...] = ()
    patch: tuple[tuple[HyperNode, dict[str, Any]], ...] = ()
    delete: tuple[HyperNode, ...] = ()
    foreign: tuple[str, ...] = ()


def changes(found: Sequence[Found], there: Iterable[HyperNode], source: str) -> Changes:
    """Return the changes that turn the HyperNodes of `source` among `there` into `found`. `there`: all existing HyperNodes."""
    known = {each.metadata.name: each for each in there}
    create, patches, foreign = [], [], []
    for each in found:
        body, old = manifest(each, source), known.get(each.name)
        if old is None:
            create.append(body)
        elif old.metadata.labels.get(keys.NETWORK_TOPOLOGY_SOURCE) != source:
            foreign.append(each.name)
        elif patch := _patch(old, body):
            patches.append((old, patch))
    names = {each.name for each in found}
    ours = (each for each in known.values() if each.metadata.labels.get(keys.NETWORK_TOPOLOGY_SOURCE) == source)
    gone = [each for each in ours if each.metadata.name not in names]
    return Changes(tuple(create), tuple(patches), tuple(gone), tuple(foreign))


def manifest(found: Found, source: str) -> dict[str, Any]:
    """Return the HyperNode to create."""
    members = [{"type": found.member_type.value, "selector": {"exactMatch": {"name": name}}} for name in found.members]
    spec: dict[str, Any] = {"tier": found.tier, "members": members}
    if found.tier_name:
        spec["tierName"] = found.tier_name
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": found.name, "labels": {**found.labels, keys.NETWORK_TOPOLOGY_SOURCE: source}},
        "spec": spec,
    }


def _patch(old: HyperNode, body: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: value for key, value in body["metadata"]["labels"].items() if old.metadata.labels.get(key) != value}
    patch: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    if reading.convert(body["spec"], HyperNodeSpec) != old.spec:
        patch["spec"] = {"tierName": None, **body["spec"]}
    return patch
