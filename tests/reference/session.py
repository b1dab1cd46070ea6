"""A session: the cluster as it is now, what the plugins say of it, and changes that can be taken back."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cmp_to_key

from .amounts import EPSILON, less_equal, minus, plus
from .model import ALLOCATED, BINDING, FAILED, HAVING_A_NODE, PENDING, PIPELINED, RELEASING, SUCCEEDED, Cluster
from .network import Network, divide, limit_of
from .promises import Promises

FLAGS = {  # extension point → flag that switches it
    "job_order": "jobOrder",
    "queue_order": "queueOrder",
    "task_order": "taskOrder",
    "job_ready": "jobReady",
    "job_pipelined": "jobPipelined",
    "job_starving": "jobStarving",
    "job_enqueueable": "jobEnqueued",
    "job_enqueued": "jobEnqueued",
    "overused": "overused",
    "allocatable": "allocatable",
    "preemptive": "preemptive",
    "lowers_lack": "preemptive",
    "preemptable": "preemptable",
    "reclaimable": "reclaimable",
    "predicate": "predicate",
    "node_order": "nodeOrder",
    "batch_node_order": "nodeOrder",
    "victim_tasks": "victim",
    "sub_job_ready": "subJobReady",
    "sub_job_pipelined": "subJobPipelined",
    "sub_job_order": "subJobOrder",
    "hyper_node_order": "hyperNodeOrder",
    "gradient": "hyperNodeGradient",
    "job_valid": None,
    "victim_queue_order": None,
    "unified_evictable": None,
}
OK, RESOLVABLE, UNRESOLVABLE = "", "Unschedulable", "UnschedulableAndUnresolvable"


class Session:
    def __init__(self, cluster: Cluster, tiers, actions, arguments=None):
        self.nodes = cluster.nodes
        self.queues = cluster.queues
        self.jobs = cluster.jobs
        self.tasks = cluster.tasks
        self.tables = cluster.tables
        self.actions = actions
        self.arguments = arguments or {}
        self.journal = []  # (task, status before, node before)
        self.evicted = []
        self.bound = {}  # task name → node
        self.network = Network(cluster.hyper_nodes, self.nodes)
        self.parts = {name: divide(job, self.network) for name, job in self.jobs.items()}
        self.job_places = {}  # the hypernode that a job is in, by name of the job
        self.before_all = {task: task.node for task in self.tasks if task.node and task.status not in {SUCCEEDED, FAILED}}
        self.total = plus(*(node.allocatable for node in self.nodes))
        self.is_doubtful = False  # whether a choice depended on the last bit of a score
        self.promises = Promises(self)
        self.tiers = [[(make(self, flags, given), flags) for make, flags, given in tier] for tier in tiers]

    # -- asking ---------------------------------------------------------------------------------------------------------

    def tiers_of(self, point):
        """What is registered and switched on at a point, by tier; tiers without any are left out."""
        found = []
        for tier in self.tiers:
            asked = []
            for plugin, flags in tier:
                flag = FLAGS[point]
                if (flag is None or flag in flags) and getattr(plugin, point, None) is not None:
                    asked.append(getattr(plugin, point))
            if asked:
                found.append(asked)
        return found

    def all_of(self, point):
        return [ask for tier in self.tiers_of(point) for ask in tier]

    def compare(self, point, left, right, *more):
        for ask in self.all_of(point):
            answer = ask(left, right, *more)
            if answer != 0:
                return answer
        return 0

    def job_before(self, left, right):
        answer = self.compare("job_order", left, right)
        return answer < 0 if answer else (left.created, left.name) < (right.created, right.name)

    def queue_before(self, left, right):
        answer = self.compare("queue_order", left, right)
        return answer < 0 if answer else (left.created, left.name) < (right.created, right.name)

    def task_before(self, left, right):
        answer = self.compare("task_order", left, right)
        return answer < 0 if answer else left.comes_before(right)

    def everybody(self, point, *about):
        return all(ask(*about) for ask in self.all_of(point))

    def overused(self, queue):
        return any(ask(queue) for ask in self.all_of("overused"))

    def job_ready(self, job):
        return self.everybody("job_ready", job)

    def job_invalid(self, job):
        return any(ask(job) is False for ask in self.all_of("job_valid"))

    def is_progress(self, mark, *, is_reclaim) -> bool:
        """Whether the evictions since `mark` may be: none is undone by another one later."""
        changed = [task for task, *_ in self.journal[mark:]]
        gone = [task for task in changed if task.status == RELEASING]
        placed = [task for task in changed if task.status == PIPELINED]
        if not gone:
            return True
        if is_reclaim and self.all_of("lowers_lack"):
            return self.everybody("lowers_lack", gone, placed)
        return all(self.outranks(task, victim) for task in placed for victim in gone)

    def outranks(self, task, victim) -> bool:
        """Whether a pod of the queue goes for `task`: of lower priority, or of the same if its job keeps the larger share."""
        is_own = self.job_of(task) is self.job_of(victim)
        one, two = ((0 if is_own else self.granted(each), each.priority) for each in (task, victim))
        if one != two:
            return one > two
        return self.job_of(task) is not self.job_of(victim) and self.level_share(task) <= self.level_share(victim)

    def granted(self, task) -> int:
        """The priority that the API server gave to a pod, by which it may take from others; without one, that of its job."""
        return self.job_of(task).priority if task.given_priority is None else task.given_priority

    def may_take(self, job) -> int:
        """The priority by which a gang may take from others: the lowest of its pending pods."""
        return min((self.granted(task) for task in job.tasks if task.status == PENDING), default=job.priority)

    def level_share(self, task):
        """The dominant share of the pods of its job with its priority."""
        has = self.held_by([each for each in self.job_of(task).tasks if each.priority == task.priority])
        return max((Fraction(has.get(name, 0)) / of for name, of in self.total.items() if of >= EPSILON), default=Fraction(0))

    def vote(self, point, job):
        for tier in self.tiers_of(point):
            permitted = False
            for ask in tier:
                answer = ask(job)
                if answer < 0:
                    return False
                permitted = permitted or answer > 0
            if permitted:
                return True
        return True

    def job_starving(self, job):
        tiers = self.tiers_of("job_starving")
        return bool(tiers) and all(ask(job) for ask in tiers[0])

    def victims(self, point, preemptor, candidates):
        """Who all plugins of the first tier with an answer agree on."""
        for tier in self.tiers_of(point):
            chosen = None
            for ask in tier:
                answer = ask(preemptor, candidates)
                chosen = [task for task in (candidates if chosen is None else chosen) if task in answer]
                if not chosen:
                    break
            if chosen:
                return chosen
        return []

    # -- parts of jobs and of the network --------------------------------------------------------------------------------

    @staticmethod
    def has_parts(job):
        """Whether it is placed by parts of the network, or is divided."""
        return bool(job.options.get("topo") or job.options.get("sub"))

    def part_of(self, task):
        job = self.job_of(task)
        if job is None or not self.has_parts(job):
            return None
        return next(part for part in self.parts[job.name] if task in part.tasks)

    def limit_of(self, job):
        return limit_of(job.options.get("topo"), self.network)

    def allocated_hyper_node(self, job):
        found = self.job_places.get(job.name, "")
        for part in self.parts[job.name]:
            found = self.network.common(found, part.allocated)
        return found

    def gradient(self, limit, allocated, inside, need, *, is_evicting=False):
        asked = self.all_of("gradient")
        return asked[0](limit, allocated, inside, need, is_evicting) if asked else [[inside]]

    def hyper_node_scores(self, part, candidates):
        total = dict.fromkeys(candidates, 0)
        for ask in self.all_of("hyper_node_order"):
            for name, score in ask(part, candidates).items():
                total[name] += score
        return total

    def part_ready(self, job, part):
        return self.everybody("sub_job_ready", part) if job.options.get("sub") else self.job_ready(job)

    def part_pipelined(self, job, part):
        if not job.options.get("sub"):
            return self.vote("job_pipelined", job)
        return self.vote("sub_job_pipelined", part)

    def part_before(self, left, right):
        answer = self.compare("sub_job_order", left, right)
        return answer < 0 if answer else (left.index, left.uid) < (right.index, right.uid)

    # -- room -----------------------------------------------------------------------------------------------------------

    def on(self, node):
        return [task for task in self.tasks if task.node == node.name and task.status not in {PENDING, SUCCEEDED, FAILED}]

    def used(self, node):
        return plus(*(task.request for task in self.on(node) if task.status != PIPELINED))

    def idle(self, node):
        return minus(node.allocatable, self.used(node))

    def future_idle(self, node):
        going = plus(*(task.request for task in self.on(node) if task.status == RELEASING))
        promised = plus(*(task.request for task in self.on(node) if task.status == PIPELINED))
        return minus(plus(self.idle(node), going), promised)

    def fits_idle(self, task, node):
        return less_equal(task.request, self.idle(node))

    def fits_future(self, task, node):
        return less_equal(task.request, self.future_idle(node))

    def holding(self, task):
        """Whether plugins count the task as having its place: placed, or promised one."""
        return task.status in {*HAVING_A_NODE, PIPELINED}

    def held_by(self, tasks):
        return plus(*(task.request for task in tasks if self.holding(task)))

    def job_of(self, task):
        return self.jobs.get(task.job)

    # -- nodes ----------------------------------------------------------------------------------------------------------

    def refusal(self, task, node):
        """The worst of what filters say of a task on a node."""
        found = [ask(task, node) for ask in self.all_of("predicate")]
        return UNRESOLVABLE if UNRESOLVABLE in found else RESOLVABLE if RESOLVABLE in found else OK

    def part_refusal(self, part, task, node):
        """The worst of what `part` of each filter says: `coupled` for what depends on other pods, `crowded` for their ports."""
        found = [
            getattr(plugin, part)(task, node)
            for tier in self.tiers
            for plugin, flags in tier
            if "predicate" in flags and hasattr(plugin, part)
        ]
        return UNRESOLVABLE if UNRESOLVABLE in found else RESOLVABLE if RESOLVABLE in found else OK

    def sees_trials(self):
        """Whether filters notice in a dry run that somebody would be gone: where predicates may preempt or allocate."""
        return any(
            flags & {"preemptable", "allocatable"}
            for tier in self.tiers
            for plugin, flags in tier
            if type(plugin).__name__ == "Predicates"
        )

    def scores(self, task, nodes):
        total = {node.name: 0 for node in nodes}
        for ask in self.all_of("node_order"):
            for node in nodes:
                total[node.name] += ask(task, node)
        for ask in self.all_of("batch_node_order"):
            for name, score in ask(task, nodes).items():
                total[name] += score
        return total

    def ranked(self, task, nodes):
        """Best score first; of equal ones the first node."""
        if not nodes:
            return []
        scores = self.scores(task, nodes)
        ordered = sorted(nodes, key=lambda node: -scores[node.name])
        for one, other in itertools.pairwise(ordered):
            a, b = scores[one.name], scores[other.name]
            if abs(a - b) < 1e-6 and (a != b or a != int(a)):
                self.is_doubtful = True
        return ordered

    # -- changes --------------------------------------------------------------------------------------------------------

    def set(self, task, status, node):
        self.journal.append((task, task.status, task.node))
        before = task.status
        task.status, task.node = status, node
        self.tell(task, before)

    def tell(self, task, before):
        """Plugins that keep sums of their own see what changed."""
        for tier in self.tiers:
            for plugin, _ in tier:
                if hasattr(plugin, "moved"):
                    plugin.moved(task, before)

    def undo_to(self, mark):
        while len(self.journal) > mark:
            task, status, node = self.journal.pop()
            before = task.status
            task.status, task.node = status, node
            self.tell(task, before)

    def allocate(self, task, node):
        self.set(task, ALLOCATED, node.name)

    def pipeline(self, task, node):
        self.set(task, PIPELINED, node.name)

    def evict(self, task):
        self.set(task, RELEASING, task.node)

    def bind(self, task):
        task.status = BINDING
        self.bound[task.name] = task.node

    def commit(self, mark):
        """Keep what was done since `mark`: what was placed is bound, what was evicted is gone for good."""
        for task, before, _ in self.journal[mark:]:
            if task.status == ALLOCATED:
                self.bind(task)
            if task.status == RELEASING and before != RELEASING:
                self.evicted.append(task)

    def closed_to(self, job, node):
        """Whether the node takes nobody of the job, whatever he asks for."""
        return any(
            plugin.is_closed(job, node)
            for tier in self.tiers
            for plugin, flags in tier
            if "predicate" in flags and hasattr(plugin, "is_closed")
        )

    def kept_from(self, job, node):
        """Whether the node is kept for others."""
        return any(plugin.is_closed(job, node) for tier in self.tiers for plugin, _ in tier if hasattr(plugin, "elect"))

    # -- victims --------------------------------------------------------------------------------------------------------

    def first_to_go(self, victims, queue):
        """The order in which victims are evicted to make room for a task of `queue`."""

        def task_later(left, right):
            return -1 if self.task_before(right, left) else 1

        def compare(left, right):
            job, other = self.job_of(left), self.job_of(right)
            if job is other:
                return task_later(left, right)
            if job.queue != other.queue:
                one, two = self.queues[job.queue], self.queues[other.queue]
                answer = self.compare("victim_queue_order", one, two, queue)
                return answer or (-1 if self.queue_before(two, one) else 1)
            return -self.compare("job_order", job, other) or task_later(left, right)

        return sorted(victims, key=cmp_to_key(compare))


class Heap:
    """Whoever goes before all others now comes first; of those that nobody goes before, who was put in first."""

    def __init__(self, before):
        self.before = before
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        first = self.items[0]
        for item in self.items[1:]:
            if self.before(item, first):
                first = item
        self.items.remove(first)
        return first

    def __len__(self):
        return len(self.items)
