"""Pods that care where other pods are: inter-pod (anti-)affinity and topology spread, by counts per topology domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.fit_errors import DomainLimit
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.model.term_counts import Term, TermCounts

_HOST: Final = "kubernetes.io/hostname"
_HONOR: Final = "Honor"
_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})


def too_crowded(
    task: TaskFacts, census: TermCounts, features: NodeFeatures, usable: Bools
) -> tuple[Bools, Bools, list[DomainLimit]] | None:
    """Return the nodes without a label of a hard constraint, in full domains, and limits of the others; None without any."""
    constraints = list(_constraints(task, "DoNotSchedule", census))
    if not constraints:
        return None
    domains = [features.domains(term.key) for _, term in constraints]
    has_all: Bools = np.logical_and.reduce([each.has for each in domains])
    limits: list[DomainLimit] = []
    crowded: Bools = np.zeros(len(usable), dtype=np.bool_)
    for (constraint, term), each in zip(constraints, domains, strict=True):
        eligible = usable & has_all & _included(task, constraint, features)
        sums = each.sums(census.matching(term, but_leaving=True), eligible)
        present = np.flatnonzero(np.bincount(each.codes[eligible], minlength=each.count))
        is_whole = len(present) >= int(constraint.get("minDomains") or 1) and len(present) > 0
        lowest = sums[present].min() if is_whole else 0
        skew = sums + term.takes_in(task) - lowest
        most = int(constraint.get("maxSkew") or 1)
        crowded |= each.has & (skew > most)[each.codes]
        if term.takes_in(task):
            room = (most - skew + 1).astype(np.int64)
            is_lowest = np.zeros(len(sums), dtype=np.bool_)
            is_lowest[present] = sums[present] == lowest
            limits.append(DomainLimit(each.codes, room, is_lowest if is_whole else None))
    return ~has_all, crowded, limits


def evenness(
    task: TaskFacts,
    census: TermCounts,
    features: NodeFeatures,
    candidates: Bools,
    defaults: Sequence[Mapping[str, Any]] = (),
) -> Floats | None:
    """Return a score from 0 to 100 for each node by the soft spread constraints, else by `defaults`; None if there are none."""
    is_default = not task.shape.spread
    raw_constraints = defaults if is_default else task.shape.spread
    constraints = list(_constraints(task, "ScheduleAnyway", census, raw_constraints))
    if not constraints:
        return None
    domains = [features.domains(term.key) for _, term in constraints]
    nothing: Bools = np.zeros(len(candidates), dtype=np.bool_)
    ignored = nothing if is_default else ~np.logical_and.reduce([each.has for each in domains])
    rated = candidates & ~ignored
    if not rated.any():
        return np.zeros(len(candidates))
    raw = np.zeros(len(candidates))
    for (constraint, term), each in zip(constraints, domains, strict=True):
        size = int(rated.sum()) if term.key == _HOST else len(np.unique(each.codes[rated]))
        counts = each.sums(census.matching(term, but_leaving=True), _included(task, constraint, features))[each.codes]
        raw += np.where(each.has, counts * np.log(size + 2) + int(constraint.get("maxSkew") or 1) - 1, 0.0)
    raw = np.round(raw)
    low, high = raw[rated].min(), raw[rated].max()
    scores = np.full(len(candidates), 100.0) if high == 0 else np.floor(100 * (high + low - raw) / high)
    return np.where(ignored, 0.0, scores)


def _constraints(
    task: TaskFacts, when: str, census: TermCounts, raw: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[tuple[Mapping[str, Any], Term]]:
    for constraint in task.shape.spread if raw is None else raw:
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == when:
            yield constraint, census.terms(task, [constraint])[0]


def _included(task: TaskFacts, constraint: Mapping[str, Any], features: NodeFeatures) -> Bools:
    """Return the nodes whose pods count for `constraint`: by node selector and affinity of the pod, and by its tolerations.

    Its policies decide which of the two are honoured, by default only node selector and affinity.
    """
    included: Bools = features.selected({})
    if constraint.get("nodeAffinityPolicy", _HONOR) == _HONOR:
        included &= features.selected(task.shape.selector)
        terms = task.shape.node_terms
        if terms is not None:
            included &= features.matching(terms)
    if constraint.get("nodeTaintsPolicy") == _HONOR:
        included &= ~features.untolerated(task.shape.tolerations, _FORBIDDING)
    return included


_ENDLESS: Final = np.iinfo(np.int64).max // 4


def is_concerned(task: TaskFacts, census: TermCounts) -> bool:
    """Whether `task` has required (anti-)affinity terms, or required anti-affinity of pods on nodes selects `task`."""
    shape = task.shape
    if shape.required("podAffinity") or shape.required("podAntiAffinity"):
        return True
    return any(counts.any() for _, counts in census.holders("podAntiAffinity", task))


def misses_required_affinity(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> tuple[Bools, bool] | None:
    """Return the nodes that violate the pod's required affinity; None if the pod has none.

    The second value tells whether the mask stays the same while more such pods are placed. A pod that matches its own terms may
    be the first pod of its group. While no pod matches the terms, any node with the labels is feasible for this pod.
    """
    terms = census.terms(task, task.shape.required("podAffinity"))
    if not terms:
        return None
    friends = census.matching_all(terms)
    by_term = [features.domains(term.key) for term in terms]
    in_domains = np.logical_or.reduce([domains.has for domains in by_term])
    is_first = not friends[in_domains].any() and all(term.takes_in(task) for term in terms)
    fits: Bools = np.ones(len(friends), dtype=np.bool_)
    for domains in by_term:
        fits &= domains.has if is_first else domains.has & (domains.sums(friends)[domains.codes] > 0)
    return ~fits, not is_first


def violates_anti_affinity(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> tuple[Bools, list[DomainLimit]] | None:
    """Return the nodes that violate the required anti-affinity, and the limits of domains; None if the pod has none."""
    terms = census.terms(task, task.shape.required("podAntiAffinity"))
    if not terms:
        return None
    found: Bools = np.zeros(len(census.matching(terms[0])), dtype=np.bool_)
    limits: list[DomainLimit] = []
    for term in terms:
        domains = features.domains(term.key)
        found |= domains.has & (domains.sums(census.matching(term))[domains.codes] > 0)
        if term.takes_in(task):
            alone = np.where(domains.has, domains.codes, domains.count).astype(np.int32)  # one domain for nodes without the label
            room = np.ones(domains.count + 1, dtype=np.int64)
            room[-1] = _ENDLESS
            limits.append(DomainLimit(alone, room, is_fixed=True))
    return found, limits


def violates_anti_affinity_of_residents(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> Bools | None:
    """Return the nodes in domains of pods whose required anti-affinity selects `task`; None if there are no such pods."""
    found: Bools | None = None
    for term, counts in census.holders("podAntiAffinity", task):
        if counts.any():
            domains = features.domains(term.key)
            hit = domains.has & (domains.sums(counts)[domains.codes] > 0)
            found = hit if found is None else found | hit
    return found


def preference(task: TaskFacts, census: TermCounts, features: NodeFeatures, candidates: Bools) -> Floats | None:
    """Return a score from 0 to 100 for each node by preferred (anti-)affinity of the pod and of the pods on nodes.

    Return None if no preferred term concerns the pod. All scores are 0 if the terms rate all candidates alike; they may differ
    for the next pod.
    """
    raw = np.zeros(len(candidates))
    is_cared_for = False
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        own = ((term, census.matching(term)) for term in census.terms(task, task.shape.preferred(kind)))
        for term, counts in chain(own, census.holders(f"+{kind}", task)):
            is_cared_for = True
            domains = features.domains(term.key)
            raw += np.where(domains.has, sign * term.weight * domains.sums(counts)[domains.codes], 0)
    if not is_cared_for:
        return None
    low, high = raw[candidates].min(), raw[candidates].max()
    return np.trunc(100 * (raw - low) / (high - low)) if high > low else np.zeros(len(candidates))
