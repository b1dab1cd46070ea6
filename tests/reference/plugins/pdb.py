"""Pdb (scheduler-plugins 14): evictions within the disruption budgets; unlabelled pods can go, and nobody is proposed (28)."""

from .selectors import matches


class Pdb:
    def __init__(self, session, flags, arguments):
        self.budgets = session.tables.get("budgets", [])

    def preemptable(self, preemptor, candidates):
        left, found = {each["name"]: each["allowed"] for each in self.budgets}, []
        for task in candidates:
            is_violated = False
            for each in self.budgets:
                if each["selector"] and task.namespace == "t" and matches(each["selector"], task.labels):
                    if task.name in each.get("disrupted", []):
                        continue
                    left[each["name"]] -= 1
                    is_violated = is_violated or left[each["name"]] < 0
            if not is_violated:
                found.append(task)
        return found

    reclaimable = preemptable

    def unified_evictable(self, job, candidates, is_reclaim):
        return self.preemptable(None, candidates)
