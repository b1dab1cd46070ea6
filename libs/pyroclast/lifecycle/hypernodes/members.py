"""Which nodes a HyperNode stands for by its selectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyroclast.api.records import HyperNode, MemberSelector
from pyroclast.resources import selectors
from pyroclast.resources.patterns import BadPattern, compile_pattern

__all__ = ["depends_on_nodes", "member_names", "node_count"]


def node_count(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> int:
    """How many members `hyper_node` has; `nodes` are labels by name.

    A member named exactly counts whether or not it exists, and HyperNodes among the members count as one each.
    """
    return len(member_names(hyper_node, nodes))


def member_names(hyper_node: HyperNode, nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The names of the members of `hyper_node`; `nodes` are labels by name."""
    names: set[str] = set()
    for member in hyper_node.spec.members:
        if member.selector is not None:
            names.update(_resolve(member.selector, nodes))
    return names


def depends_on_nodes(hyper_node: HyperNode) -> bool:
    """Whether the count may change when nodes come, go, or are labelled anew."""
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
    except BadPattern:  # admission refuses that
        return iter(())
    return (name for name in names if found.search(name))
