"""Preempt in its topology-aware mode (scheduler-actions 4.5): nodes are tried, and the one that loses least is taken."""

from tests.reference.amounts import less_equal, plus
from tests.reference.session import OK, UNRESOLVABLE


def dry_run(session, task, candidates) -> bool:
    """Promise the task the best node on which somebody may go for it; `candidates`: those of a node that might."""
    given = session.arguments.get("preempt", {})
    nodes = [node for node in session.nodes if session.refusal(task, node) != UNRESOLVABLE]
    least, most = given.get("minCandidateNodesAbsolute", 1), given.get("maxCandidateNodesAbsolute", 100)
    enough = min(len(nodes), max(least, min(most, len(nodes) * given.get("minCandidateNodesPercentage", 10) // 100)))
    found = []
    for node in nodes:
        victims = victims_on(session, task, node, candidates(node))
        if victims:
            found.append((node, victims))
        if found and len(found) >= enough:
            break
    for node, victims in sorted(found, key=lambda each: loss(each[1])):
        mark = len(session.journal)
        for victim in victims:
            session.evict(victim)
        session.pipeline(task, node)
        if session.is_progress(mark, is_reclaim=False):
            return True
        session.undo_to(mark)
    return False


def victims_on(session, task, node, candidates):
    """Who has to go, the most important first; nothing where that does not help, or nobody has to."""
    queue = session.queues[session.job_of(task).queue]
    victims = session.victims("preemptable", task, candidates)
    if not less_equal(task.request, plus(session.future_idle(node), *(victim.request for victim in victims))):
        return []
    before = session.part_refusal("coupled", task, node)  # what counts where trials are not seen

    def fits_without(gone) -> bool:
        mark = len(session.journal)
        for victim in gone:
            session.evict(victim)
        coupled = session.part_refusal("coupled", task, node) if session.sees_trials() else before
        is_open = coupled == session.part_refusal("crowded", task, node) == OK
        fits = is_open and session.everybody("allocatable", queue, task) and session.fits_future(task, node)
        session.undo_to(mark)
        return fits

    potential = []
    for victim in session.first_to_go(victims, queue):
        potential.append(victim)
        if fits_without(potential):
            break
    else:
        return []
    kept = potential[::-1]
    for victim in potential[::-1]:
        if fits_without([each for each in kept if each is not victim]):
            kept = [each for each in kept if each is not victim]
    return kept


def loss(victims):
    """Smaller is better: the first one's priority, the sum, how many, how long ago the most important ones began."""
    priorities = [victim.options.get("prio", 0) for victim in victims]
    important = [victim for victim, each in zip(victims, priorities, strict=True) if each == max(priorities)]
    began = max(victim.options.get("started", 0) for victim in important)
    return priorities[0], sum(each + 2**31 for each in priorities), len(priorities), began
