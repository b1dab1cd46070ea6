"""Sla: a job that has waited long enough enters, and counts as having its places."""

from tests.reference.model import seconds


class Sla:
    def __init__(self, session, flags, arguments):
        self.default = arguments.get("sla-waiting-time")

    def limit(self, job):
        """Seconds, None: none."""
        text = job.annotations.get("volcano.sh/sla-waiting-time") or job.annotations.get("sla-waiting-time")
        return positive(text) or positive(self.default)

    def job_order(self, left, right):
        one, two = self.limit(left), self.limit(right)
        if one is None or two is None:
            return (one is None) - (two is None)
        a, b = left.created + one, right.created + two
        return (a > b) - (a < b)

    def job_enqueueable(self, job):
        limit = self.limit(job)
        return 1 if limit is not None and -job.created >= limit else 0

    job_pipelined = job_enqueueable


def positive(text):
    """Seconds; None for what is no duration, or none that is more than nothing."""
    if not isinstance(text, str) or text.startswith("-"):
        return None
    return seconds(text) or None
