"""Overcommit: jobs enter while all that entered would fit a cluster somewhat larger than this one."""

from fractions import Fraction

from tests.reference.amounts import exceeding, minus, plus

from .queue_sums import gated, inqueue_of, is_expecting


class Overcommit:
    def __init__(self, session, flags, arguments):
        self.session = session
        factor = Fraction(str(arguments.get("overcommit-factor", 1.2)))
        if factor < 1:
            factor = Fraction("1.2")
        used = plus(*(session.used(node) for node in session.nodes))
        self.idle = minus({name: amount * factor for name, amount in session.total.items()}, used)
        self.inqueue = {}
        for job in session.jobs.values():
            if is_expecting(job):
                self.inqueue = plus(self.inqueue, gated(job, job.min_resources) if job.phase == "Inqueue" else inqueue_of(job))

    def job_enqueueable(self, job):
        if not job.has_min_resources:
            return 1
        kept = plus(*(self.session.idle(node) for node in self.session.nodes if self.session.kept_from(job, node)))
        return -1 if exceeding(plus(self.inqueue, job.min_resources), minus(self.idle, kept), job.min_resources) else 1

    def job_enqueued(self, job):
        self.inqueue = plus(self.inqueue, gated(job, job.min_resources))
