"""The (anti-)affinity terms of pods: whom each means, by labels and namespaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pyroclast.resources.selectors import is_empty, matches
from pyroclast_scheduler.model.label_index import named_values
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Spaces", "Term", "own_terms"]

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Term:
    """Pods of some namespaces (None: all) that match a selector, by domains of label `key`. `id` tells whom it means."""

    key: str
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str] | None
    id: bytes
    weight: int = 0

    def takes_in(self, task: TaskFacts) -> bool:
        """Whether `task` is one of those pods."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        return matches(self.selector, task.pod.metadata.labels)

    def may_take_in(self, task: TaskFacts, *, but: Collection[str]) -> bool:
        """Whether it could take in a pod that differs from `task` in the labels `but` alone."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        labels = task.pod.metadata.labels
        return all(labels.get(key) in values for key, values in named_values(self.selector) if key not in but)


Spaces = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by name."""


def own_terms(task: TaskFacts, raw: Iterable[Mapping[str, Any]], spaces: Spaces) -> list[Term]:
    """The (anti-)affinity terms of `task`; a preferred term has its weight around it. `spaces`: all namespaces."""
    found = []
    for each in raw:
        weight, term = (int(each.get("weight") or 0), each["podAffinityTerm"]) if "podAffinityTerm" in each else (0, each)
        selector = _with_label_keys(term, task)
        namespaces = _namespaces(term, task, spaces)
        identity = _ENCODER.encode((selector, sorted(namespaces) if namespaces is not None else None))
        found.append(Term(term.get("topologyKey", ""), selector, namespaces, identity, weight))
    return found


def _namespaces(term: Mapping[str, Any], task: TaskFacts, spaces: Spaces) -> frozenset[str] | None:
    """The namespaces that `term` speaks of: those it names and those it selects, else the pod's own; None: all."""
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if selector is None:
        return frozenset(named or (task.namespace,))
    if is_empty(selector):
        return None
    return frozenset(named) | {name for name, labels in spaces.items() if matches(selector, labels)}


def _with_label_keys(term: Mapping[str, Any], task: TaskFacts) -> Mapping[str, Any] | None:
    """The selector with what `matchLabelKeys` and `mismatchLabelKeys` take from the pod's own labels."""
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
