"""Resourcequota (scheduler-plugins 20): a job enters if every quota of its namespace has room; names match to the letter."""

from tests.reference.amounts import number, plus


def read(listed):
    return {name: number(text) for name, text in (listed or {}).items()}


class ResourceQuota:
    def __init__(self, session, flags, arguments):
        self.quotas = [(read(each["hard"]), read(each["used"])) for each in session.tables.get("quotas", [])]
        self.pending = {}

    def job_enqueueable(self, job):
        minimum = read(job.options.get("minRes"))
        for hard, used in self.quotas:
            for name in minimum.keys() & hard.keys():
                if used.get(name, 0) + self.pending.get(name, 0) + minimum[name] > hard[name]:
                    return -1
        return 1

    def job_enqueued(self, job):
        if self.quotas:
            self.pending = plus(self.pending, read(job.options.get("minRes")))
