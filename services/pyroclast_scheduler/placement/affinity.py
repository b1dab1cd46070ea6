"""Inter-pod affinity: near whom a pod must be, from whom it must keep away, and whom it would rather be near."""

from __future__ import annotations

import numpy as np

from pyroclast_scheduler.model.columns import Bools, Floats
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.placement.company import Company, own_terms
from pyroclast_scheduler.placement.features import NodeFeatures

__all__ = ["far_from_friends", "is_concerned", "near_foes", "near_those_who_mind", "preference"]


def is_concerned(task: TaskFacts, company: Company) -> bool:
    """Whether it matters to `task`, or might matter to others, who is where."""
    shape = task.shape
    return bool(shape.required("podAffinity") or shape.required("podAntiAffinity")) or any(
        counts.any() for _, counts in company.holders("podAntiAffinity")
    )


def far_from_friends(task: TaskFacts, company: Company, features: NodeFeatures) -> Bools | None:
    """Nodes that the pod's required affinity rules out; None if it has none.

    A pod that matches its own terms may start a group when nobody anywhere matches them.
    """
    terms = own_terms(task, task.shape.required("podAffinity"))
    if not terms:
        return None
    friends = company.matching_all(terms)
    is_first = not friends.any() and all(term.takes_in(task) for term in terms)
    fits: Bools = np.ones(len(friends), dtype=np.bool_)
    for term in terms:
        domains = features.domains(term.key)
        fits &= domains.has if is_first else domains.has & (domains.sums(friends)[domains.codes] > 0)
    return ~fits


def near_foes(task: TaskFacts, company: Company, features: NodeFeatures) -> Bools | None:
    """Nodes that the pod's required anti-affinity rules out; None if it has none."""
    terms = own_terms(task, task.shape.required("podAntiAffinity"))
    if not terms:
        return None
    found: Bools = np.zeros(len(company.matching(terms[0])), dtype=np.bool_)
    for term in terms:
        domains = features.domains(term.key)
        found |= domains.has & (domains.sums(company.matching(term))[domains.codes] > 0)
    return found


def near_those_who_mind(task: TaskFacts, company: Company, features: NodeFeatures) -> Bools | None:
    """Nodes in the domains of pods whose required anti-affinity means this one; None if there are none."""
    found: Bools | None = None
    for term, counts in company.holders("podAntiAffinity"):
        if counts.any() and term.takes_in(task):
            domains = features.domains(term.key)
            hit = domains.has & (domains.sums(counts)[domains.codes] > 0)
            found = hit if found is None else found | hit
    return found


def preference(task: TaskFacts, company: Company, features: NodeFeatures, candidates: Bools) -> Floats | None:
    """0 to 100: how much the pod, and those already there, would like it on each node; None if nobody cares."""
    raw = np.zeros(len(candidates))
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for term in own_terms(task, task.shape.preferred(kind)):
            domains = features.domains(term.key)
            raw += np.where(domains.has, sign * term.weight * domains.sums(company.matching(term))[domains.codes], 0)
        for term, counts in company.holders(f"+{kind}"):
            if term.takes_in(task):
                domains = features.domains(term.key)
                raw += np.where(domains.has, sign * term.weight * domains.sums(counts)[domains.codes], 0)
    low, high = raw[candidates].min(), raw[candidates].max()
    return np.trunc(100 * (raw - low) / (high - low)) if high > low else None
