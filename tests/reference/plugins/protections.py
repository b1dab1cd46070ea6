"""Conformance, pdb (scheduler-plugins 14, 28) and cdp (3): pods that stay, by what the cluster needs, budgets and cooldowns."""

import re

from tests.reference.model import seconds

from .selectors import matches


class Conformance:
    """What the cluster itself needs stays."""

    def __init__(self, session, flags, arguments):
        pass

    def preemptable(self, preemptor, candidates):
        return [task for task in candidates if task.namespace != "kube-system"]

    reclaimable = preemptable

    def unified_evictable(self, job, candidates, is_reclaim):
        return self.preemptable(None, candidates)


class Pdb:
    """Evictions within the disruption budgets; unlabelled pods can go."""

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


class Cdp:
    """A running pod stays for a while after it was placed; the gang actions do not ask."""

    def __init__(self, session, flags, arguments):
        pass

    def preemptable(self, preemptor, candidates):
        return [task for task in candidates if not self.is_protected(task)]

    reclaimable = preemptable

    @staticmethod
    def is_protected(task):
        text = task.labels.get("volcano.sh/cooldown-time") or task.annotations.get("volcano.sh/cooldown-time", "")
        if not re.fullmatch(r"([\d.]+[hms])+", text) or "placed" not in task.options:
            return False
        is_running = task.node != "" and task.options.get("phase", "Running") == "Running"
        return is_running and task.options["placed"] < seconds(text)
