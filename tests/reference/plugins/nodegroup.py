"""Nodegroup: queues keep to groups of nodes."""

from tests.reference.session import OK, UNRESOLVABLE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeGroup:
    def __init__(self, session, flags, arguments):
        self.session = session
        self.strict = arguments.get("strict", True)
        self.in_order = arguments.get("enablePreferredOrder", False)
        self.inherits = "hierarchy" in flags

    def affinity(self, job):
        """(required, preferred, anti-required, anti-preferred); None where the queue says nothing."""
        queue = self.session.queues[job.queue]
        given = queue.options.get("affinity")
        seen = set()
        while self.inherits and given is None and queue.name not in seen:
            seen.add(queue.name)
            queue = self.session.queues.get(queue.parent or "root")
            if queue is None:
                return None
            given = queue.options.get("affinity")
        near, far = ((given or {}).get(key, {}) for key in ("nodeGroupAffinity", "nodeGroupAntiAffinity"))
        found = near.get(REQUIRED, []), near.get(PREFERRED, []), far.get(REQUIRED, []), far.get(PREFERRED, [])
        return found if any(found) else None

    def is_closed(self, job, node):
        return self.refusal(job, node) != OK

    def predicate(self, task, node):
        return self.refusal(self.session.job_of(task), node)

    def refusal(self, job, node):
        group, affinity = node.labels.get("volcano.sh/nodegroup-name"), self.affinity(job)
        if group is None:
            return OK if not self.strict and affinity is None else UNRESOLVABLE
        if affinity is None:
            return UNRESOLVABLE
        required, preferred, never, rather_not = affinity
        return OK if ((group in required or group in preferred) and group not in never) or group in rather_not else UNRESOLVABLE

    def node_order(self, task, node):
        group, affinity = node.labels.get("volcano.sh/nodegroup-name"), self.affinity(self.session.job_of(task))
        if group is None or affinity is None:
            return 0
        required, preferred, _, rather_not = affinity
        score = 100 if group in required else 0
        if group in preferred:
            count = len(preferred)
            score += 50 * (count - preferred.index(group)) / count if self.in_order else 50
        return -1 if group in rather_not else score
