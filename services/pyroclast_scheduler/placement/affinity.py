"""Inter-pod affinity: feasibility and scores by required and preferred (anti-)affinity terms."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.fit_errors import DomainLimit
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.model.term_counts import TermCounts

_ENDLESS: Final = np.iinfo(np.int64).max // 4


def is_concerned(task: TaskFacts, census: TermCounts) -> bool:
    """Whether `task` has required (anti-)affinity terms, or required anti-affinity of pods on nodes selects `task`."""
    shape = task.shape
    if shape.required("podAffinity") or shape.required("podAntiAffinity"):
        return True
    return any(counts.any() for _, counts in census.holders("podAntiAffinity", task))


def far_from_friends(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> tuple[Bools, bool] | None:
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


def near_foes(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> tuple[Bools, list[DomainLimit]] | None:
    """Return the nodes that violate the pod's required anti-affinity; None if the pod has none.

    The second value limits how many such pods each topology domain accepts.
    """
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


def near_those_who_mind(task: TaskFacts, census: TermCounts, features: NodeFeatures) -> Bools | None:
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
        for term in census.terms(task, task.shape.preferred(kind)):
            is_cared_for = True
            domains = features.domains(term.key)
            raw += np.where(domains.has, sign * term.weight * domains.sums(census.matching(term))[domains.codes], 0)
        for term, counts in census.holders(f"+{kind}", task):
            is_cared_for = True
            domains = features.domains(term.key)
            raw += np.where(domains.has, sign * term.weight * domains.sums(counts)[domains.codes], 0)
    if not is_cared_for:
        return None
    low, high = raw[candidates].min(), raw[candidates].max()
    return np.trunc(100 * (raw - low) / (high - low)) if high > low else np.zeros(len(candidates))
