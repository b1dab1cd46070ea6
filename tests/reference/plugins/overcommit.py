"""Overcommit: jobs enter while all that entered would fit a cluster somewhat larger than this one."""

from fractions import Fraction

from tests.reference.amounts import exceeding, minus, plus


class Overcommit:
    def __init__(self, session, flags, arguments):
        self.session = session
        factor = Fraction(str(arguments.get("overcommit-factor", 1.2)))
        if factor < 1:
            factor = Fraction("1.2")
        used = plus(*(session.used(node) for node in session.nodes))
        self.idle = minus({name: amount * factor for name, amount in session.total.items()}, used)

    def job_enqueueable(self, job):
        if not job.has_min_resources:
            return 1
        kept = plus(*(self.session.idle(node) for node in self.session.nodes if self.session.kept_from(job, node)))
        after = plus(self.session.promises.whole, job.min_resources)
        return -1 if exceeding(after, minus(self.idle, kept), job.min_resources) else 1
