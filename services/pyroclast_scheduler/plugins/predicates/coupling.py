"""Filters that depend on other pods: inter-pod affinity and topology spread."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from pyroclast_scheduler.model.fit_errors import Code, DomainLimit, Refusal
from pyroclast_scheduler.model.label_index import named_values
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.triggers import AnyChange, Labelled, Neighbours, Trigger
from pyroclast_scheduler.placement import affinity, spread
from pyroclast_scheduler.session.session import Session


def coupled(session: Session, task: Task, filters: Collection[str]) -> list[Refusal] | None:
    """Return the refusals that depend on other pods; None if no filter applies."""
    facts, census, features = task.facts, session.term_counts, session.features
    found: list[Refusal] = []
    has_affinity = "InterPodAffinity" in filters and affinity.is_concerned(facts, census)
    if has_affinity:
        far = affinity.far_from_friends(facts, census, features)
        if far is not None:
            why = "node(s) didn't match pod affinity rules"
            found.append(Refusal(far[0], why, Code.UNRESOLVABLE, is_steady=far[1]))
        foes = affinity.near_foes(facts, census, features)
        if foes is not None:
            found += _limited(foes[0], "node(s) didn't match pod anti-affinity rules", foes[1])
        minding = affinity.near_those_who_mind(facts, census, features)
        if minding is not None:
            found.append(Refusal(minding, "node(s) didn't satisfy existing pods anti-affinity rules", is_steady=True))
    crowding = spread.too_crowded(facts, census, features, session.nodes.usable) if "PodTopologySpread" in filters else None
    if crowding is not None:
        reason = "node(s) didn't match pod topology spread constraints"
        found.append(Refusal(crowding[0], f"{reason} (missing required label)", Code.UNRESOLVABLE, is_steady=True))
        found += _limited(crowding[1], reason, crowding[2])
    return found if has_affinity or crowding is not None else None


def coupled_to(session: Session, task: Task, filters: Collection[str]) -> set[Trigger] | None:
    """Return the triggers by pods that the task's terms select or whose terms select the task; None if no filter applies."""
    if coupled(session, task, filters) is None:
        return None
    shape, found = task.facts.shape, set[Trigger]({Neighbours()})
    own = (*shape.required("podAffinity"), *shape.required("podAntiAffinity"), *shape.spread)
    for term in session.term_counts.terms(task.facts, own):
        named = named_values(term.selector)
        if not named:
            return {AnyChange()}  # the selector matches pods with any labels
        key, values = named[0]
        found |= {Labelled(key, value) for value in values}
    return found


def _limited(nodes: Bools, reason: str, limits: Sequence[DomainLimit]) -> list[Refusal]:
    """Return one refusal per limit. The first one refuses the nodes, and the others only have a limit."""
    first, others = (limits[0], limits[1:]) if limits else (None, ())
    nothing = np.zeros_like(nodes)
    return [
        Refusal(nodes, reason, is_steady=True, limit=first),
        *(Refusal(nothing, reason, is_steady=True, limit=each) for each in others),
    ]
