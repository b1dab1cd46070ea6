"""Conformance: what the cluster itself needs stays."""


class Conformance:
    def __init__(self, session, flags, arguments):
        pass

    def preemptable(self, preemptor, candidates):
        return [task for task in candidates if task.namespace != "kube-system"]

    reclaimable = preemptable

    def unified_evictable(self, job, candidates, is_reclaim):
        return self.preemptable(None, candidates)
