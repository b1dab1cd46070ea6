"""Priority: what matters more goes first, and takes from what matters less."""

from tests.reference.model import PIPELINED


class Priority:
    def __init__(self, session, flags, arguments):
        self.session = session

    def task_order(self, left, right):
        return right.priority - left.priority

    def job_order(self, left, right):
        return right.priority - left.priority

    def sub_job_order(self, left, right):
        one, two = (max([0, *(task.priority for task in part.tasks)]) for part in (left, right))
        return two - one

    def job_starving(self, job):
        return job.ready + job.count(PIPELINED) < len(job.tasks)

    def preemptable(self, preemptor, candidates):
        own, granted, found = self.session.job_of(preemptor), self.session.granted, []
        for task in candidates:
            is_own = self.session.job_of(task) is own
            if task.priority < preemptor.priority if is_own else granted(task) < granted(preemptor):
                found.append(task)
        return found

    def unified_evictable(self, job, candidates, is_reclaim):
        return [task for task in candidates if is_reclaim or self.session.granted(task) < self.session.may_take(job)]
