"""Tdm: nodes of a zone that is open only at times, for pods that can be revoked."""

from tests.reference.model import PENDING, RUNNING, SUCCEEDED
from tests.reference.session import OK, UNRESOLVABLE


class Tdm:
    """Windows are whole days or unknown zones here: what is open does not depend on the hour."""

    def __init__(self, session, flags, arguments):
        self.session = session
        self.open = {key.removeprefix("tdm.revocable-zone.") for key in arguments if key.startswith("tdm.revocable-zone.")}

    @staticmethod
    def zone(node):
        return node.labels.get("volcano.sh/revocable-zone", "")

    @staticmethod
    def is_revocable(task):
        zone = task.annotations.get("volcano.sh/revocable-zone")
        return zone == "*" if zone is not None else task.annotations.get("volcano.sh/preemptable") == "true"

    def predicate(self, task, node):
        if not self.zone(node):
            return OK
        return OK if self.zone(node) in self.open and self.is_revocable(task) else UNRESOLVABLE

    def node_order(self, task, node):
        return 100 if self.zone(node) in self.open and self.is_revocable(task) else 0

    def preemptable(self, preemptor, candidates):
        if preemptor.preemptable or self.is_revocable(preemptor):
            return []
        outside, taken, found = {node.name for node in self.session.nodes if not self.zone(node)}, {}, []
        for task in candidates:
            job = self.session.job_of(task)
            if task.preemptable and task.status == RUNNING and task.node in outside:
                taken[job.name] = taken.get(job.name, 0) + 1
                if taken[job.name] <= self.most(job):
                    found.append(task)
        return found

    @staticmethod
    def most(job):
        """How many pods of the job may go."""
        running = job.count(RUNNING)
        unavailable = job.annotations.get("volcano.sh/jdb-max-unavailable")
        available = job.annotations.get("volcano.sh/jdb-min-available")
        if available is not None and running >= int(available):
            return running - int(available)
        if available is None and unavailable is not None:
            return max(0, int(unavailable) - (len(job.tasks) - job.count(SUCCEEDED, "Failed") - running))
        return 1

    def job_order(self, left, right):
        return left.preemptable - right.preemptable

    def job_pipelined(self, job):
        return 1 if job.is_pipelined else -1

    def job_starving(self, job):
        return not job.preemptable and job.count(PENDING) > 0
