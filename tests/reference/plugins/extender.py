"""Extender (scheduler-plugins 7, with jobReady as it is meant): what a service that is asked says, by table `extender`."""

from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE

CODES = {2: RESOLVABLE}


class Extender:
    def __init__(self, session, flags, arguments):
        self.session, self.says = session, session.tables["extender"]
        self.absent = set(self.says.get("absent", []))
        self.is_ignorable = arguments.get("extender.ignorable", False)
        self.managed = arguments.get("extender.managedResources", [])

    def is_managed(self, task):
        return not self.managed or any(name in task.options for name in self.managed)

    def predicate(self, task, node):
        if not self.is_managed(task):
            return OK
        if "predicate" in self.absent:
            return OK if self.is_ignorable else UNRESOLVABLE
        code = self.says.get("refuse", {}).get(node.name, 0)
        return CODES.get(code, UNRESOLVABLE) if code else OK

    coupled = predicate

    def batch_node_order(self, task, nodes):
        if not self.is_managed(task) or "prioritize" in self.absent:
            return {}
        return {node.name: self.says.get("scores", {}).get(node.name, 0) for node in nodes}

    def preemptable(self, preemptor, candidates):
        if not self.is_managed(preemptor):
            return None
        if "victims" in self.absent:
            return []
        return [task for task in candidates if task.name not in self.says.get("stay", [])]

    reclaimable = preemptable

    def overused(self, queue):
        return not self.is_ignorable if "overused" in self.absent else queue.name in self.says.get("overused", [])

    def job_enqueueable(self, job):
        if "enqueueable" in self.absent:
            return 1 if self.is_ignorable else -1
        return self.says.get("votes", {}).get(job.name, 0)

    def objects(self, task):
        if not self.is_managed(task):
            return False
        return not self.is_ignorable if "allocate" in self.absent else task.name in self.says.get("objects", [])

    def job_ready(self, job):
        return self.is_ignorable if "ready" in self.absent else job.name not in self.says.get("unready", [])
