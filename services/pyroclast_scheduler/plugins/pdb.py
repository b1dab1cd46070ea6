"""Plugin pdb: evictions respect the PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast.api import records
from pyroclast.api.types import POD_DISRUPTION_BUDGETS
from pyroclast.resources.selectors import matches
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession


class Pdb:
    """The plugin pdb, which has no arguments. It proposes no victims: a budget allows evictions, and asks for none."""

    watches = (Watch(POD_DISRUPTION_BUDGETS, records.PodDisruptionBudget),)

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        budgets: dict[str, list[records.PodDisruptionBudget]] = {}
        for budget in session.objects(records.PodDisruptionBudget).values():
            budgets.setdefault(budget.metadata.namespace, []).append(budget)

        def victims(preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate]:
            del preemptor, job
            return within(candidates, budgets)

        return Extensions(
            unified_evictable=lambda _, candidates: within(candidates, budgets),
            preemptable=victims,
            reclaimable=victims,
        )


def within(candidates: Sequence[Candidate], budgets: dict[str, list[records.PodDisruptionBudget]]) -> list[Candidate]:
    """Return the candidates that the budgets allow to evict, one after another. `budgets`: by namespace."""
    left = {id(each): each.status.disruptions_allowed for listed in budgets.values() for each in listed}
    chosen: list[Candidate] = []
    for owner, task in candidates:
        meta = task.facts.pod.metadata
        is_allowed = True
        for budget in budgets.get(meta.namespace, ()):
            selector = budget.spec.selector
            if not selector or meta.name in budget.status.disrupted_pods or not matches(selector, meta.labels):
                continue
            left[id(budget)] -= 1
            is_allowed &= left[id(budget)] >= 0
        if is_allowed:
            chosen.append((owner, task))
    return chosen
