"""Gang: enough members, or none."""

from tests.reference.model import HAVING_A_NODE, PENDING, PIPELINED, SUCCEEDED
from tests.reference.network import counts


class Gang:
    def __init__(self, session, flags, arguments):
        self.session = session

    def job_valid(self, job):
        if self.enforces_roles(job):
            for role, least in job.roles.items():
                if least and job.count(*HAVING_A_NODE, SUCCEEDED, PIPELINED, PENDING, role=role) < least:
                    return False
        if not counts(job, self.session.parts[job.name], lambda part: True):
            return False
        return job.count(*HAVING_A_NODE, SUCCEEDED, PIPELINED, PENDING) >= job.minimum

    def enforces_roles(self, job):
        return job.minimum >= sum(job.roles.values())

    def have_roles(self, job, *statuses):
        if not self.enforces_roles(job):
            return True
        for role, least in job.roles.items():
            empty = sum(task.status == PENDING and task.role == role and task.is_best_effort for task in job.tasks)
            if job.count(*HAVING_A_NODE, SUCCEEDED, *statuses, role=role) + empty < least:
                return False
        return True

    def job_order(self, left, right):
        return left.is_ready - right.is_ready

    def job_ready(self, job):
        has_parts = counts(job, self.session.parts[job.name], lambda part: part.is_ready)
        return self.have_roles(job) and has_parts and job.is_ready

    def job_pipelined(self, job):
        has_parts = counts(job, self.session.parts[job.name], lambda part: part.is_pipelined)
        return 1 if self.have_roles(job, PIPELINED) and has_parts and job.is_pipelined else -1

    def sub_job_ready(self, part):
        return part.is_ready

    def sub_job_pipelined(self, part):
        return 1 if part.is_pipelined else -1

    def sub_job_order(self, left, right):
        return left.is_ready - right.is_ready

    def job_starving(self, job):
        return job.ready + job.count(PIPELINED) < job.minimum

    def preemptable(self, preemptor, candidates):
        """What jobs have above their minimum."""
        left, found = {}, []
        for task in candidates:
            job = self.session.job_of(task)
            left.setdefault(job.name, job.ready)
            if left[job.name] > job.minimum:
                left[job.name] -= 1
                found.append(task)
        return found

    reclaimable = preemptable

    def unified_evictable(self, job, candidates, is_reclaim):
        return candidates
