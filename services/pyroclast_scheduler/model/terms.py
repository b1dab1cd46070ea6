"""The (anti-)affinity terms of pods, with the pods that each term selects by labels and namespaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pyroclast.resources.selectors import is_empty, matches
from pyroclast_scheduler.model.pod_columns import named_values
from pyroclast_scheduler.model.tasks import TaskFacts

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Term:
    """A term of affinity or anti-affinity.

    Attributes:
        key: the node label whose values divide the nodes into topology domains.
        selector: the label selector of the pods; None selects no pod.
        namespaces: the namespaces of the pods; None for all.
        id: equal for terms that select the same pods.
        weight: the weight of a preferred term, 0 for a required one.
    """

    key: str
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str] | None
    id: bytes
    weight: int = 0

    def takes_in(self, task: TaskFacts) -> bool:
        """Whether the term selects `task`."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        return matches(self.selector, task.pod.metadata.labels)

    def may_take_in(self, task: TaskFacts, *, but: Collection[str]) -> bool:
        """Whether the term could select a pod that differs from `task` only in the labels `but`."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        labels = task.pod.metadata.labels
        return all(labels.get(key) in values for key, values in named_values(self.selector) if key not in but)


Spaces = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by name."""


def own_terms(task: TaskFacts, raw: Iterable[Mapping[str, Any]], spaces: Spaces) -> list[Term]:
    """Return the (anti-)affinity terms of `task`. `raw`: the terms in the form of the API.

    `spaces`: the labels of all namespaces.
    """
    found = []
    for each in raw:
        is_preferred = "podAffinityTerm" in each
        weight, term = (int(each.get("weight") or 0), each["podAffinityTerm"] or {}) if is_preferred else (0, each)
        selector = _with_label_keys(term, task)
        namespaces = _namespaces(term, task, spaces)
        identity = _ENCODER.encode((selector, sorted(namespaces) if namespaces is not None else None))
        found.append(Term(term.get("topologyKey") or "", selector, namespaces, identity, weight))
    return found


def _namespaces(term: Mapping[str, Any], task: TaskFacts, spaces: Spaces) -> frozenset[str] | None:
    """Return the namespaces of `term`: the named and the selected ones, else that of the pod. None: all namespaces."""
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if selector is None:
        return frozenset(named or (task.namespace,))
    if is_empty(selector):
        return None
    return frozenset(named) | {name for name, labels in spaces.items() if matches(selector, labels)}


def _with_label_keys(term: Mapping[str, Any], task: TaskFacts) -> Mapping[str, Any] | None:
    """Return the label selector extended by `matchLabelKeys` and `mismatchLabelKeys`, with the values of the pod's own labels."""
    selector = term.get("labelSelector")
    labels = task.pod.metadata.labels
    extra = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    if selector is None or not extra:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
