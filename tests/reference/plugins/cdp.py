"""Cdp (scheduler-plugins 3): a running pod stays for a while after it was placed; the gang actions do not ask."""

import re

from tests.reference.model import seconds


class Cdp:
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
