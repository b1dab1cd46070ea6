"""Reservation (precedence 18 to 25, scheduler-actions 8.7): nodes are kept for one job that waits, in each scope."""

import json
from fractions import Fraction

from tests.reference.amounts import plus
from tests.reference.model import BOUND, HAVING_A_NODE, PENDING, RUNNING, seconds
from tests.reference.session import OK, UNRESOLVABLE, Heap

from .queue_sums import filled
from .selectors import tolerates, wants

NOW = 1_800_000_000  # what annotations of cases count from
KEY = "scheduling.volcano.sh/reservation"
GRACE = 1


class Reservation:
    def __init__(self, session, flags, arguments):
        self.session, self.arguments = session, arguments
        self.now = 0
        self.states = {}
        for job in session.jobs.values():
            text = job.annotations.get(KEY)
            if text and json.loads(text)["scheduler"] == "volcano":
                state = self.states[job.name] = json.loads(text)
                for key in ("promise", "fill_until"):
                    state[key] = None if state[key] is None else state[key] - NOW
        self.locked = {}
        self.renew()

    def renew(self):
        self.locked = {job: [lock["node"] for lock in state["locks"]] for job, state in self.states.items()}

    # -- who keeps off ---------------------------------------------------------------------------------------------------

    def is_closed(self, job, node):
        return any(
            node.name in nodes and not self.fills(job, self.states[owner])
            for owner, nodes in self.locked.items()
            if owner != job.name
        )

    def fills(self, job, state):
        """Whether the job ends before the target's nodes are free, by what it says of itself."""
        length = self.estimate(job)
        if not self.arguments.get("fill", True) or None in {length, state["promise"], state["fill_until"]}:
            return False
        return self.now + length <= min(state["promise"], state["fill_until"])

    def estimate(self, job):
        text = job.annotations.get("scheduling.volcano.sh/running-estimate") or self.arguments.get("assumeDuration")
        return None if text is None else seconds(text)

    def predicate(self, task, node):
        job = self.session.job_of(task)
        return UNRESOLVABLE if job is not None and self.is_closed(job, node) else OK

    coupled = predicate

    def job_enqueueable(self, job):
        return 1 if job.name in self.states and self.may_let_in(job) else 0

    def may_let_in(self, job):
        """Whether the queue and those above it have room for what the gang needs at least, beside what they use."""
        for name, limit in self.capabilities(job.queue):
            below = [other for other in self.session.jobs.values() if self.is_below(other, name)]
            if not less_in(plus(job.min_resources, *(self.session.held_by(other.tasks) for other in below)), limit):
                return False
        return True

    def is_below(self, job, name):
        """Whether the job is in the queue, or in one below it."""
        own, seen = job.queue, set()
        while own in self.session.queues and own not in seen:
            if own == name:
                return True
            seen.add(own)
            own = self.session.queues[own].parent
        return False

    # -- elect -----------------------------------------------------------------------------------------------------------

    def is_waiting(self, job):
        return job.phase in {"Pending", "Inqueue"} and not (job.tasks and self.session.job_ready(job))

    def weight(self, job):
        return job.annotations.get("scheduling.volcano.sh/reservation-target") == "true", job.priority

    def elect(self):
        by_queue = self.arguments.get("targetScope") == "queue"
        best = {}
        for job in self.session.jobs.values():
            scope = job.queue if by_queue else ""
            too_young = -job.created < seconds(self.arguments.get("minWait", "0s"))
            if job.name in self.states or too_young or not self.is_waiting(job) or not self.can_start(job):
                continue
            if scope not in best or self.rank(job) < self.rank(best[scope]):
                best[scope] = job
        for scope, job in sorted(best.items()):
            held = [name for name, state in self.states.items() if state["scope"] == scope]
            known = [self.session.jobs[name] for name in held if name in self.session.jobs]
            if all(self.weight(job) > self.weight(holder) for holder in known):
                for name in held:
                    del self.states[name]
                self.states[job.name] = {"scope": scope, "locks": [], "promise": None, "fill_until": None}
        if best:
            self.renew()

    def rank(self, job):
        is_named, priority = self.weight(job)
        return not is_named, -priority, job.created, job.name

    def can_start(self, job):
        is_asking = any(amount > 0 for amount in self.need(job)["total"].values())
        return is_asking and not self.lacks_pods(job) and self.may_go_on(job)

    def lacks_pods(self, job):
        """Whether the gang of an enqueued job waits for pods that are not there, or not open."""
        open_pods = sum(task.status == PENDING and not task.is_gated for task in job.tasks)
        return job.phase == "Inqueue" and open_pods < self.lacking(job)

    def may_go_on(self, job):
        """Whether the job could start on empty nodes; asked when it is elected, and again in each period."""
        need = self.need(job)
        return (
            self.session.queues[job.queue].is_open
            and all(less_in(plus(job.allocated, need["total"]), limit) for _, limit in self.capabilities(job.queue))
            and self.covers(job, [node for node in self.session.nodes if self.passes(job, node)], need)
        )

    def capabilities(self, name):
        """What the queue and those above it may have at most, where that is said."""
        seen = set()
        while name in self.session.queues and name not in seen:
            seen.add(name)
            queue = self.session.queues[name]
            if queue.capability:
                yield name, filled(queue.capability)
            name = queue.parent

    # -- what is needed, and what nodes have for it ----------------------------------------------------------------------

    def lacking(self, job):
        """How many pods the gang needs beside those that have a node or need none."""
        lacking = max(0, job.minimum - job.ready - job.waiting_best_effort)
        if job.roles and job.minimum >= sum(job.roles.values()):
            lacking = max(lacking, sum(max(0, least - self.role_ready(job, role)) for role, least in job.roles.items()))
        return lacking

    def need(self, job):
        """What the gang lacks: pods, as many as are missing, or what its minimum leaves open while they are not there."""
        lacking = self.lacking(job)
        heap = Heap(self.session.task_before)
        for task in job.tasks:
            if task.status == PENDING and not task.is_gated:
                heap.push(task)
        if len(heap) >= lacking > 0:
            pods = [heap.pop() for _ in range(lacking)]
            return {"total": plus(*(task.request for task in pods)), "pods": pods}
        left = {name: max(amount - job.allocated.get(name, 0), 0) for name, amount in job.min_resources.items()}
        return {"total": left, "pods": []}

    @staticmethod
    def role_ready(job, role):
        bare = sum(task.status == PENDING and task.role == role and task.is_best_effort for task in job.tasks)
        return job.count(*HAVING_A_NODE, "Succeeded", role=role) + bare

    def passes(self, job, node):
        """Whether somebody of the job may go there, whoever else is there."""
        waiting = [task for task in job.tasks if task.status == PENDING and not task.is_gated]
        is_open = not node.unschedulable and self.queue_may(job, node)
        return is_open and (not waiting or any(self.takes(task, node) for task in waiting))

    def queue_may(self, job, node):
        return not any(
            plugin.is_closed(job, node)
            for tier in self.session.tiers
            for plugin, flags in tier
            if plugin is not self and "predicate" in flags and hasattr(plugin, "is_closed")
        )

    def takes(self, task, node):
        """What does not depend on other pods: selectors, taints, zones."""
        for tier in self.session.tiers:
            for plugin, flags in tier:
                name = type(plugin).__name__
                if name == "Tdm" and "predicate" in flags and plugin.predicate(task, node) != OK:
                    return False
                if name == "Predicates" and "predicate" in flags:
                    hard = [taint for taint in node.taints if taint["effect"] != "PreferNoSchedule"]
                    if not wants(task, node) or not all(tolerates(task, taint) for taint in hard):
                        return False
        return True

    def whole(self, job, node):
        """What the node has once everybody has gone who goes: the job's own pods stay."""
        own = [task.request for task in job.tasks if task.node == node.name and task.status in HAVING_A_NODE]
        found = dict(node.allocatable)
        for request in own:
            for name, amount in request.items():
                found[name] = found.get(name, 0) - amount
        return found

    def covers(self, job, nodes, need):
        room = {node.name: self.whole(job, node) for node in nodes}
        for name, amount in need["total"].items():
            if name != "pods" and amount > 0 and sum(each.get(name, 0) for each in room.values()) < amount:
                return False
        for task in sorted(need["pods"], key=largest, reverse=True):
            wanted = {name: amount for name, amount in task.request.items() if amount > 0}
            for node in nodes:
                left = room[node.name]
                if self.takes(task, node) and all(left.get(name, 0) >= amount for name, amount in wanted.items()):
                    for name, amount in wanted.items():
                        left[name] -= amount
                    break
            else:
                return False
        return True

    # -- reserve ---------------------------------------------------------------------------------------------------------

    def reserve(self):
        for name, state in list(self.states.items()):
            job = self.session.jobs.get(name)
            if job is None or not self.is_waiting(job) or not self.may_go_on(job):
                del self.states[name]
                continue
            self.go_on(job, state)
        self.renew()

    def go_on(self, job, state):
        session, need = self.session, self.need(job)
        nodes = {node.name: node for node in session.nodes}
        before = {lock["node"] for lock in state["locks"]}
        kept = [lock for lock in state["locks"] if lock["node"] in nodes and self.passes(job, nodes[lock["node"]])]

        def at(locks):
            return [nodes[lock["node"]] for lock in locks]

        asked = [name for name, amount in need["total"].items() if amount > 0]
        free = [
            node
            for node in at(kept)
            if all(session.idle(node).get(name, 0) >= self.whole(job, node).get(name, 0) for name in asked)
        ]
        is_apart = bool(need["pods"] and job.failed) and not job.is_limited and self.covers(job, free, need)
        takes_all = self.arguments.get("locksPerCycle") == "all"
        count = len(nodes) if takes_all else self.arguments.get("locksPerCycle", 1)
        passing = [node for node in session.nodes if self.passes(job, node)]
        taken = {lock["node"] for name, other in self.states.items() if name != job.name for lock in other["locks"]}
        most = len(nodes)
        if (share := self.arguments.get("maxLockedShare", 1.0)) < 1:
            most = int(share * len(passing)) - sum(node.name in taken for node in passing)
        locked = {lock["node"] for lock in kept}
        candidates = [node for node in passing if node.name not in taken | locked]
        for node in self.ordered(job, candidates, passing, need):
            is_enough = self.covers(job, at(kept), need) and not (is_apart and len(free) == len(locked))
            if count == 0 or len(kept) >= most or (is_enough and not takes_all):
                break
            kept.append({"node": node.name})
            count -= 1
        if not takes_all and not is_apart and self.covers(job, at(kept), need):
            for lock in kept[::-1]:
                rest = [each for each in kept if each is not lock]
                if self.covers(job, at(rest), need):
                    kept = rest
        state["locks"] = kept
        if self.arguments.get("preemptive"):
            self.drain(job, at(kept))
        gone = sorted(before - {lock["node"] for lock in kept})
        blame = bool(gone)
        if self.covers(job, at(kept), need):
            found, is_late = self.promise(job, at(kept), need)
            self.promised(state, found, is_late or blame)
        elif state["promise"] is not None:
            self.promised(state, None, True)

    def ordered(self, job, candidates, passing, need):
        shares = []
        for name, amount in need["total"].items():
            if name != "pods" and amount > 0:
                shares.append((-Fraction(amount) / max(sum(self.whole(job, node).get(name, 0) for node in passing), 1), name))
        if len({share for share, _ in shares}) < len(shares):
            self.session.is_doubtful = True  # the order of resources then hangs on the last bit
        size = self.session.idle if self.arguments.get("nodeOrder") == "idle" else lambda node: self.whole(job, node)
        names = [name for _, name in sorted(shares)]
        return sorted(candidates, key=lambda node: (*(-size(node).get(name, 0) for name in names), node.name))

    def drain(self, job, nodes):
        """Who matters less leaves; a gang that would break goes whole, or not at all."""
        from tests.reference.actions.gangs import Bundle, agreed, split

        session, bundles = self.session, []
        for owner in session.jobs.values():
            here = [
                task
                for node in nodes
                for task in session.on(node)
                if task.job == owner.name and task.status in {BOUND, RUNNING} and task.preemptable
                if session.granted(task) < session.may_take(job)
            ]
            if owner is job or not here:
                continue
            for bundle in split(session, owner, here):
                whole = [task for task in owner.tasks if task.status in HAVING_A_NODE]
                bundles.append(Bundle(owner, whole if bundle.is_whole else bundle.tasks, bundle.is_whole))
        lower = [task for each in bundles for task in each.tasks if session.granted(task) < session.may_take(job)]
        may_go = agreed(session, job, [task for task in lower if task.preemptable], is_reclaim=False)
        mark = len(session.journal)
        for each in bundles:
            left = [task for task in each.tasks if task in may_go]
            if not each.is_whole or left == each.tasks:
                for task in left:
                    if task.status != "Releasing":
                        session.evict(task)
        session.commit(mark)

    # -- promises --------------------------------------------------------------------------------------------------------

    def promise(self, job, nodes, need):
        """(when enough is free, whether somebody has outlived what it said); None: that is not known."""
        ends, is_late = [], False
        for node in nodes:
            end = self.now
            for task in self.session.before_all:
                owner = self.session.job_of(task)
                if self.session.before_all[task] != node.name or owner is None or owner is job:
                    continue
                length = self.estimate(owner)
                if length is None or end is None:
                    end = None
                    continue
                started = self.now - task.options.get("started", 0)
                over = started + length + GRACE < self.now
                while started + length + GRACE < self.now:
                    length *= 2
                is_late = is_late or over
                end = max(end, started + length)
            ends.append((end is None, end or 0, self.session.nodes.index(node), node))
        free = []
        for is_unknown, end, _, node in sorted(ends, key=lambda each: each[:3]):
            free.append(node)
            if self.covers(job, free, need):
                return None if is_unknown else end, is_late
        return None, is_late

    def promised(self, state, found, has_blame):
        old = state["promise"]
        if old is None:
            state["promise"] = found
        elif found is None:
            state["promise"] = None if has_blame or self.now > old + GRACE else old
        elif found <= old or (found > old + GRACE and has_blame):
            state["promise"] = found
        known = [each for each in (state["fill_until"], state["promise"]) if each is not None]
        state["fill_until"] = min(known, default=None)


def largest(task):
    return [task.request.get(name, 0) for name in ("cpu", "memory", "x/gpu")]


def less_in(amounts, limit) -> bool:
    """Whether the amounts are within a limit; what the limit does not name is unlimited."""
    return all(amounts.get(name, 0) <= most for name, most in limit.items())
