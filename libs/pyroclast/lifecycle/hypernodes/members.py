"""The nodes that the selectors of a HyperNode select."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyroclast.api.records import HyperNode, MemberSelector
from pyroclast.resources import selectors
from pyroclast.resources.patterns import BadPattern, compile_pattern


def node_count(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> int:
    """Return the number of members of `hyper_node`. `nodes`: labels by node.

    A member selected by its exact name counts even if it does not exist. A HyperNode among the members counts as one.
    """
    return len(member_names(hyper_node, nodes))


def member_names(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the names of the members of `hyper_node`. `nodes`: labels by node."""
    names: set[str] = set()
    for member in hyper_node.spec.members:
        if member.selector is not None:
            names.update(_resolve(member.selector, nodes))
    return names


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
