"""Drf: the job with the smallest dominant share first; on demand the branch of queues with the smallest weighed share."""

from fractions import Fraction

from tests.reference.amounts import minus, names, plus, share
from tests.reference.model import PENDING


class Drf:
    def __init__(self, session, flags, arguments):
        self.session = session
        if "hierarchy" not in flags:
            self.queue_order = self.reclaimable = None

    def dominant(self, amounts):
        total = self.session.total
        return max((share(amounts.get(name, 0), total[name]) for name in names(total)), default=Fraction(0))

    def job_order(self, left, right):
        one, two = (self.dominant(self.session.held_by(job.tasks)) for job in (left, right))
        return (one > two) - (one < two)

    def preemptable(self, preemptor, candidates):
        """Tasks of jobs that still have as large a share without them as the preemptor's job with its task."""
        own = self.session.job_of(preemptor)
        least = self.dominant(plus(self.session.held_by(own.tasks), preemptor.request))
        has, found = {}, []
        for task in candidates:
            job = self.session.job_of(task)
            has[job.name] = minus(has.get(job.name, self.session.held_by(job.tasks)), task.request)
            rest = self.dominant(has[job.name])
            if least < rest or abs(least - rest) <= Fraction(1, 10**6):
                found.append(task)
        return found

    # -- the tree: inner nodes are path elements, leaves are jobs --------------------------------------------------------

    def tree(self, more=None, less=None):
        """The root as it is now. `more`, `less`: a task that came in addition, and one that is gone."""
        session = self.session
        root = Branch("root", 1)
        for job in session.jobs.values():
            path, weights = path_of(session.queues[job.queue])
            at = root
            for name, weight in zip(path[1:], weights[1:], strict=True):
                at = at.children.setdefault(name, Branch(name, weight))
            allocated = session.held_by(job.tasks)
            request = plus(allocated, *(task.request for task in job.tasks if task.status == PENDING))
            if more is not None and more.job == job.name:
                allocated = plus(allocated, more.request)
            if less is not None and less.job == job.name:
                allocated = minus(allocated, less.request)
            at.jobs.append(Leaf(allocated, request))
        everything = plus(*(leaf.allocated for leaf in root.leaves()))
        demanding = {name for name in names(session.total) if everything.get(name, 0) < session.total[name]}
        self.work_out(root, demanding)
        return root

    def work_out(self, branch, demanding):
        for child in branch.children.values():
            self.work_out(child, demanding)
        for leaf in branch.jobs:
            leaf.share = self.dominant(leaf.allocated)
            leaf.is_saturated = any(
                (has > 0 and leaf.request.get(name, 0) > 0 and has >= leaf.request[name])
                or (name not in demanding and leaf.request.get(name, 0) != 0)
                for name, has in leaf.allocated.items()
                if name in names(leaf.allocated)
            )
        below = [*branch.children.values(), *branch.jobs]
        least = min([1, *(self.dominant(each.allocated) for each in below if not each.is_saturated and each.share > 0)])
        branch.allocated = {}
        for each in below:
            if each.share > 0:
                scale = 1 if each.is_saturated else least / each.share
                branch.allocated = plus(branch.allocated, {name: has * scale for name, has in each.allocated.items()})
        branch.share = self.dominant(branch.allocated)
        branch.is_saturated = all(each.is_saturated for each in below)

    def queue_order(self, left, right):
        return compare(self.tree(), left, right)

    def reclaimable(self, preemptor, candidates):
        session, found = self.session, []
        own = session.queues[session.job_of(preemptor).queue]
        for task in candidates:
            tree = self.tree(more=preemptor, less=task)
            if compare(tree, own, session.queues[session.job_of(task).queue]) < 0:
                found.append(task)
        return found


class Leaf:
    def __init__(self, allocated, request):
        self.allocated, self.request = allocated, request


class Branch:
    def __init__(self, name, weight):
        self.name, self.weight = name, weight
        self.children, self.jobs = {}, []

    def leaves(self):
        return [*self.jobs, *(leaf for child in self.children.values() for leaf in child.leaves())]


def path_of(queue):
    path, weights = queue.options.get("hier", ["root", "1"])
    parts = path.split("/")
    found = [Fraction(text) for text in weights.split("/")]
    found += [Fraction(1)] * (len(parts) - len(found))
    return parts, [max(each, Fraction(1)) for each in found[: len(parts)]]


def compare(tree, left, right):
    one, two = tree, tree
    paths = path_of(left)[0], path_of(right)[0]
    for name, other in zip(paths[0][1:], paths[1][1:], strict=False):
        one, two = one.children.get(name), two.children.get(other)
        if one is None or two is None:
            return 0
        if one.is_saturated != two.is_saturated:
            return one.is_saturated - two.is_saturated
        a, b = one.share / one.weight, two.share / two.weight
        if a != b:
            return -1 if a < b else 1
    return 0
