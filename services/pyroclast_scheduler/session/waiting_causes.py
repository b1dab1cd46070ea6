"""The cause of a waiting job, from the results of a session: a code of the closed list, with its numbers.

A cause that says "never" is proved by the amounts of empty nodes, all of which can be read; others say "not now".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_codes import NEVER, NOT_NOW, says_never
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.causes import Cause, Shortage
from pyroclast_scheduler.model.dimensions import PODS, UNKNOWN, Ints
from pyroclast_scheduler.model.fit_errors import FitErrors, count_refusals
from pyroclast_scheduler.model.hypernodes import job_limit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats, Rows
from pyroclast_scheduler.model.queues import Queue, lineage
from pyroclast_scheduler.model.tasks import READY, Task, TaskStatus
from pyroclast_scheduler.model.values import listed, number, spelled
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session import enqueue_refusals
from pyroclast_scheduler.session.domains import NO_DOMAIN
from pyroclast_scheduler.session.minimum_run_time import withheld_by_job
from pyroclast_scheduler.session.node_limits import IN_SEVERAL_DOMAINS
from pyroclast_scheduler.session.recovery import Recovery, periods_of
from pyroclast_scheduler.session.session import Session

_NO_NODE = Cause(PendingReason.NO_NODE_READY, lambda: "no node is ready")
_NO_NODE_OF_SHARD = Cause(PendingReason.NO_NODE_READY, lambda: "no node of this scheduler's NodeShard is ready")
_LONGEST = 300  # characters of the reason for which a node cannot be read
_BY_NODES = {  # the reasons that can deny for good what the nodes offer
    PendingReason.ABOVE_CLUSTER,
    PendingReason.NO_NODE_READY,
    PendingReason.NO_NODE_ALLOWED,
    PendingReason.NO_NODE_BIG_ENOUGH,
    PendingReason.TOO_FEW_NODES,
    PendingReason.TOPOLOGY_TOO_NARROW,
}
_EVICTABLE = {PendingReason.QUEUE_FULL, PendingReason.CLUSTER_FULL, PendingReason.NODES_FULL, PendingReason.TOPOLOGY_TOO_NARROW}
_EVICTING = frozenset({"preempt", "gangpreempt"})
_ROOM = ("Insufficient ", "node(s) pod number exceeded")  # prefixes of refusals that evictions resolve


def cause_of(session: Session, job: Job) -> Cause | None:
    """Return the cause of `job`, with the pods that may not be evicted for it yet; None if it does not wait or it is unknown."""
    cause, withheld = _cause_of(session, job), session.once(withheld_by_job).get(job.facts.key)
    if cause is not None and cause.reason in _BY_NODES and session.snapshot.unread_nodes:
        cause = _unproved(cause, session.snapshot.unread_nodes)
    if cause is not None and cause.reason in _EVICTABLE and not job.facts.group.keeps_phase and job.facts.priority > 0:
        cause = _without_eviction(session, cause)
    if cause is None or withheld is None or job.tally[TaskStatus.PIPELINED]:
        return cause
    return Cause(cause.reason, lambda: f"{cause.explain()}; {withheld}", cause.sentence)


def _without_eviction(session: Session, cause: Cause) -> Cause:
    """Return `cause` with a clause if no action evicts, since Kubernetes lets its groups preempt by default."""
    if not _EVICTING.isdisjoint(session.configuration.actions):
        return cause
    text = "; eviction is switched off: the scheduler's configuration has no action preempt"
    return replace(cause, explain=lambda: f"{cause.explain()}{text}")


def _unproved(cause: Cause, unread: Mapping[str, str]) -> Cause:
    """Return `cause` without its "never": a node that cannot be read may have what the job asks for."""
    name = min(unread)
    node = f"node {name}" if len(unread) == 1 else f"{len(unread)} nodes, {name} among them,"
    why = f"{node} cannot be read as a whole: {unread[name][:_LONGEST]}"

    def explain() -> str:
        text = cause.explain()
        if says_never(text):
            text = f"{NOT_NOW}{text.removeprefix(NEVER)}"
        elif cause.reason is not PendingReason.NO_NODE_READY:
            return text
        return f"{text}; {why}"

    return replace(cause, explain=explain)


def _cause_of(session: Session, job: Job) -> Cause | None:
    hold = job.facts.group.spec.hold
    if hold is not None:
        return Cause(hold.reason, lambda: hold.text)
    deadlock = job.facts.group.metadata.annotations.get(keys.WAITS_FOR_TASK)
    if deadlock and job.tally.valid < job.facts.min_available:
        return Cause(PendingReason.WAITS_FOR_TASK, lambda: deadlock)
    if job.phase is PodGroupPhase.PENDING:
        return job.cause.settled() if job.cause is not None else _not_let_in(session, job)
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING]
    if not waiting:
        return _coming(job)
    gates = sorted({gate for task in waiting for gate in task.facts.gates})
    open_ones = [task for task in waiting if not task.facts.gates]
    if not open_ones:
        waits, noun = "waits" if len(waiting) == 1 else "wait", "gate" if len(gates) == 1 else "gates"
        return Cause(PendingReason.GATED, lambda: f"{_pods(len(waiting))} {waits} behind scheduling {noun}: {', '.join(gates)}")
    invalid = session.job_invalid(job)
    if invalid is not None:
        found, least = job.tally.valid, job.facts.min_available
        text = f"its gang is not complete yet: {_pods(found)} of at least {least} {'is' if found == 1 else 'are'} there"
        return Cause(PendingReason.PODS_MISSING, lambda: text if found < least else f"not now: {invalid.message}")
    failed = next((task for task in open_ones if task.uid in job.fit_errors), None)
    if failed is not None:
        return _does_not_fit(session, job, failed, job.fit_errors[failed.uid])
    if job.objection:
        return Cause(PendingReason.NODES_REFUSE, lambda: f"not now: {job.objection}")
    if any(task.uid in session.snapshot.held for task in open_ones):
        text = "the API server refused to bind pods of it a moment ago; it is tried again"
        return Cause(PendingReason.BIND_REFUSED, lambda: text)
    if not session.nodes.usable.any():
        return _no_node(session)
    return _limited(session, job, open_ones[0])


def _limited(session: Session, job: Job, task: Task) -> Cause | None:
    """Return the cause that a quota, a budget, a limit or a promise to others keeps `task` waiting, else that of coming pods."""
    if (withheld := session.withheld(job)) is not None:
        return withheld
    kept = session.promises.withheld.get(job.facts.key)
    if kept is not None:
        return _promised_to_others(session, session.plan(task.facts.shape), kept)
    if job.is_limited or session.overused(session.queues[job.facts.queue]):
        return _queue_is_full(session, job, task)
    return _coming(job)


def _not_let_in(session: Session, job: Job) -> Cause | None:
    queue = job.facts.queue
    if not session.queues[queue].facts.is_open:
        return enqueue_refusals.closed(session, queue)
    text = f"not now: a plugin does not let it into queue {queue} yet"
    return None if job.facts.min_resources is None else Cause(PendingReason.NOT_LET_IN, lambda: text)


def _coming(job: Job) -> Cause | None:
    """Return the cause that the pods are pipelined, while pods on their nodes are being deleted."""
    promised = job.tally[TaskStatus.PIPELINED]
    if not promised:
        return None
    evicts = any(task.evicted_others for task in job.tasks if task.status is TaskStatus.PIPELINED)
    why = "pods were evicted for it" if evicts else "what runs there is ending"
    return Cause(PendingReason.ROOM_IS_COMING, lambda: f"room for {_pods(promised)} of it is coming: {why}")


def _queue_is_full(session: Session, job: Job, task: Task) -> Cause:
    queue, plan = session.queues[job.facts.queue], session.plan(task.facts.shape)
    if not queue.facts.is_open:
        return enqueue_refusals.closed(session, queue.name)
    never = _above_capability(session, job, queue) or _larger_than_nodes(session, job, task) or _above_cluster(session, job)
    if never is not None:
        return never
    sums = session.queue_sums.get(queue.name)
    has = np.zeros(len(session.dimensions)) if sums is None else sums.allocated + session.moves.queue_changes.get(queue.name, 0.0)

    def explain() -> str:
        named = session.dimensions.named(_asked(plan), plan.shape.request)
        asks, taken = _asks(session, plan), listed((name, float(has[row])) for name, row in named)
        text = f"not now: its pods ask for {asks} each; queue {queue.name} has {taken} and may not take that much more"
        return text + enqueue_refusals.before(session, job)

    def short() -> list[Shortage]:
        named = session.dimensions.named(_asked(plan), plan.shape.request)
        limit = demand.capability(queue.facts.capability, session.dimensions)
        return enqueue_refusals.shortages(named, plan.shape.request, used=has, limit=limit)

    return Cause(PendingReason.QUEUE_FULL, explain, short=short)


def _above_capability(session: Session, job: Job, queue: Queue) -> Cause | None:
    """Return the cause that the gang can never have its minimum within the capability of its queue, or of a queue above."""
    for each in lineage(queue.name, session.snapshot.queues):
        limit, has = demand.capability(each.capability, session.dimensions), f"queue {each.name} may have at most"
        cause = _above(session, job, PendingReason.ABOVE_QUEUE_LIMIT, limit, f"{has} {{}} (its capability)")
        if cause is not None:
            return cause
    return None


def _above_cluster(session: Session, job: Job) -> Cause | None:
    return _above(session, job, PendingReason.ABOVE_CLUSTER, session.total, "the cluster has {}")


def _above(session: Session, job: Job, reason: PendingReason, limit: Floats, text: str) -> Cause | None:
    """Return the cause that the smallest pods of the gang's minimum exceed `limit` in all; None if they do not."""
    least = job.facts.min_available - job.tally[TaskStatus.SUCCEEDED]
    if least <= 0 or job.is_ready or not np.isfinite(limit).any():
        return None
    shapes = Counter(task.facts.shape for task in job.tasks if task.status is not TaskStatus.SUCCEEDED)
    requests, counts = np.array([session.plan(shape).request for shape in shapes]), np.array(list(shapes.values()))
    for row in np.flatnonzero(np.isfinite(limit) & (requests > 0).any(axis=0)).tolist():
        order = np.argsort(requests[:, row], kind="stable")
        members = np.diff(np.minimum(np.cumsum(counts[order]), least), prepend=0)
        total = float(members @ requests[order, row])
        if total > limit[row] and row != UNKNOWN:
            name, most = session.dimensions.names[row], float(limit[row])
            short = (Shortage(name, number(name, total), limit=number(name, most)),)
            asks = f"its gang of {_pods(least)} asks for {spelled(name, total)} in all"
            return Cause(reason, partial(str, f"never: {asks}; {text.format(spelled(name, most))}"), short=partial(tuple, short))
    return None


def _promised_to_others(session: Session, plan: PlacementPlan, kept: Floats) -> Cause:
    """Return the cause that pods beyond the minimum leave free room to gangs that were let in."""
    rows = [row for row in _asked(plan) if kept[row] > 0] or _asked(plan)
    amounts = listed((name, float(kept[row])) for name, row in session.dimensions.named(rows, plan.shape.request))
    text = (
        f"not now: its gang has its minimum; {amounts} of the free room are kept for gangs that were let in and have not started"
    )
    return Cause(PendingReason.KEPT_FOR_ANOTHER, lambda: text)


def _does_not_fit(session: Session, job: Job, task: Task, errors: FitErrors) -> Cause:
    plan = session.plan(task.facts.shape)
    torn = next((reason for reason in errors.reasons if reason.startswith(IN_SEVERAL_DOMAINS)), "")
    if torn:
        return Cause(PendingReason.NO_NODE_ALLOWED, lambda: f"not now: {torn}")
    allowed = np.flatnonzero(plan.mask)
    unready = session.nodes.usable & session.features.unready()
    if not len(allowed) and np.array_equal(unready, session.nodes.usable):
        return _no_node(session)
    possible = np.flatnonzero(plan.mask | unready)  # a node that is not ready proves nothing
    is_narrow = bool(errors.hyper_node) or errors.text.startswith(("no hypernode", NO_DOMAIN))
    refused = Cause(PendingReason.NODES_REFUSE, lambda: f"not now: no node takes {task.facts.name}: {_reasons(errors)}")
    if not len(allowed) and (errors.reasons or is_narrow):
        when = "not now" if len(possible) else "never"
        return Cause(PendingReason.NO_NODE_ALLOWED, lambda: f"{when}: {_not_allowed(session, job, plan, task, errors)}")
    if not len(allowed) or not (is_narrow or any(reason.startswith(_ROOM) for reason in errors.reasons)):
        return refused
    never = _larger_than_nodes(session, job, task)
    if never is not None:
        return never
    needed, missing = _needed(job, task)
    if is_narrow:
        return Cause(PendingReason.TOPOLOGY_TOO_NARROW, lambda: _too_narrow(session, job, plan, needed, errors))
    kept = _kept_for_another(session, job, plan, allowed, missing) or _kept_for_replacements(session, job, plan, allowed, missing)
    if kept is not None:
        return kept
    is_for_room = all(reason.startswith(_ROOM) for reason in errors.reasons)
    if not is_for_room and int(_copies(plan, session.columns.idle(), allowed).sum()) >= missing:
        return refused
    free = partial(_shortages, session, plan, session.columns.idle(), allowed)
    return Cause(PendingReason.NODES_FULL, lambda: _full(session, job, plan, allowed, missing), short=free)


def _larger_than_nodes(session: Session, job: Job, task: Task) -> Cause | None:
    """Return the cause that the nodes that may take `task` are too small or too few even when empty; None if they are not."""
    plan = session.plan(task.facts.shape)
    possible = np.flatnonzero(plan.mask | (session.nodes.usable & session.features.unready()))
    if not len(possible):
        return None
    held = _copies(plan, session.columns.allocatable, possible)
    whole = partial(_shortages, session, plan, session.columns.allocatable, possible)
    if not held.any():
        return Cause(PendingReason.NO_NODE_BIG_ENOUGH, lambda: _too_big(session, plan, possible, task), short=whole)
    needed = _needed(job, task)[0]
    if int(held.sum()) >= needed:
        return None
    text = partial(_too_few, session, plan, needed, int(held.sum()), len(possible))
    return Cause(PendingReason.TOO_FEW_NODES, text, short=whole)


def _kept_for_another(session: Session, job: Job, plan: PlacementPlan, allowed: Rows, needed: int) -> Cause | None:
    """Return the cause that only the nodes reserved for another gang are missing; None if they are not the only reason."""
    locked = session.locked_to(job) if session.reserved.current else None
    if locked is None or not locked[allowed].any():
        return None
    copies = _copies(plan, session.columns.idle(), allowed)
    is_kept = locked[allowed]
    rest = int(copies[~is_kept].sum())
    if int(copies.sum()) < needed or rest >= needed:
        return None
    nodes = {session.names[row] for row in allowed[is_kept].tolist()}
    holders = [each for each in (session.reserved.current or {}).values() if nodes & each.nodes and each.job != job.facts.key]
    if not holders:
        return None
    target = session.job(holders[0].job)
    name = "another gang" if target is None else enqueue_refusals.named_for(job, target.facts)
    promise = holders[0].promise
    until = "" if promise is None else f" until {format_time(promise)}"
    count, what = len(nodes & holders[0].nodes), _asks(session, plan)
    kept = f"{_nodes(count)} {'is' if count == 1 else 'are'} kept for {name}{until}"
    text = f"not now: its gang needs {_pods(needed)} of {what} and would fit, but {kept}"
    return Cause(PendingReason.KEPT_FOR_ANOTHER, lambda: text, holder=holders[0].job)


def _kept_for_replacements(session: Session, job: Job, plan: PlacementPlan, allowed: Rows, needed: int) -> Cause | None:
    """Return the cause that only places are missing that are kept for members that gangs lost; None if not only these are."""
    idle = session.columns.idle()
    if not (places := session.once(Recovery).kept) or int(_copies(plan, idle, allowed).sum()) < needed:
        return None
    rest = idle.copy()
    for place in places:
        rest[:, place.row] -= place.request
    if int(_copies(plan, rest, allowed).sum()) >= needed:
        return None
    gang, most = places[0].gang, periods_of(session.arguments_of("allocate"))
    count = "a place is" if len(places) == 1 else f"{len(places)} places are"
    text = f"{count} kept for pods that {enqueue_refusals.named_for(job, gang)} lost, for at most {most} schedule periods"
    return Cause(PendingReason.KEPT_FOR_ANOTHER, lambda: f"not now: {text}")


def _shortages(session: Session, plan: PlacementPlan, amounts: Ints, rows: Rows) -> list[Shortage]:
    """Return the request of one pod beside the sum and the maximum of the amounts of `rows`."""
    has, request = np.maximum(amounts[:, rows], 0), plan.shape.request
    named = session.dimensions.named(_asked(plan), request)
    named.sort(key=lambda each: bool(has[each[1]].max(initial=0) >= plan.request[each[1]]))
    return enqueue_refusals.shortages(named, request, free=has.sum(axis=1), largest=has.max(axis=1, initial=0))


def _no_node(session: Session) -> Cause:
    return _NO_NODE if session.nodes.foreign is None or not session.nodes.foreign.any() else _NO_NODE_OF_SHARD


def _reasons(errors: FitErrors) -> str:
    counted = sorted(errors.reasons.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {reason}" for reason, count in counted) or str(errors)


def _not_allowed(session: Session, job: Job, plan: PlacementPlan, task: Task, errors: FitErrors) -> str:
    """Return the text with the counts of refusals that do not depend on room. Volcano counts a full node only as full."""
    refusals = (*session.job_refusals(job), *plan.refusals())
    lasting = count_refusals(session.nodes.usable, (each for each in refusals if not each.reason.startswith(_ROOM)))
    return f"no node takes {task.facts.name}: {_reasons(lasting if lasting.reasons else errors)}"


def _too_narrow(session: Session, job: Job, plan: PlacementPlan, needed: int, errors: FitErrors) -> str:
    """Return the text with the number of pods for which an allowed hypernode has room, or else the fit errors."""
    found = f"not now: {str(errors)[:1].lower()}{str(errors)[1:]}"
    limit = job_limit(job, session.hyper_nodes)
    if limit is None or job.is_divided or job.allocated_hyper_node or not session.hyper_nodes.is_ready:
        return found
    parts = [np.flatnonzero(plan.mask & each.nodes) for each in session.hyper_nodes.values() if each.tier <= limit]
    asks = f"its gang needs {_pods(needed)} of {_asks(session, plan)}"
    holds, has = (
        max((int(_copies(plan, amounts, rows).sum()) for rows in parts), default=0)
        for amounts in (session.columns.allocatable, session.columns.idle())
    )
    if holds < needed:
        return f"never: {asks}, and no hypernode up to tier {limit} holds more than {holds} of them even when empty"
    return f"not now: {asks}, and no hypernode up to tier {limit} has room for more than {has} of them" if has < needed else found


def _asked(plan: PlacementPlan) -> list[int]:
    """Return the dimensions that a pod requests, without `pods`."""
    return [row for row in plan.present if plan.request[row] > 0 and row != PODS] or [PODS]


def _asks(session: Session, plan: PlacementPlan, rows: Sequence[int] | None = None) -> str:
    """Return the request of a pod as text, without `pods`. `rows`: only these dimensions; None: all."""
    request = plan.shape.request
    named = session.dimensions.named(_asked(plan) if rows is None else rows, request)
    return listed((name, request[name]) for name, _ in named)


def _copies(plan: PlacementPlan, amounts: Ints, rows: Rows) -> Ints:
    """Return how many such pods fit on each of `rows` with `amounts`."""
    wanted = [row for row in plan.present if plan.request[row] > 0]
    copies: Ints = np.min([np.maximum(amounts[row, rows], 0) // plan.request[row] for row in wanted], axis=0)
    return copies


def _needed(job: Job, task: Task) -> tuple[int, int]:
    """Return how many pods of the shape of `task` its gang needs at least, and how many of these have no node yet."""
    shapes = {each.facts.shape for each in job.tasks}
    if len(shapes) == 1:
        least = max(job.facts.min_available, sum(job.facts.role_minimum.values()) if job.enforces_roles else 0)
        placed = sum(job.tally[status] for status in READY if status is not TaskStatus.SUCCEEDED)
        needed = max(1, least - job.tally[TaskStatus.SUCCEEDED])
        return needed, max(1, needed - placed)
    roles = {each.facts.role for each in job.tasks if each.facts.shape is task.facts.shape}
    alike = sum(each.facts.shape is task.facts.shape and each.status not in READY for each in job.tasks)
    least = sum(job.facts.role_minimum.get(role, 0) for role in roles) if job.enforces_roles else 0
    needed = max(1, min(least, alike))
    return needed, needed


def _too_big(session: Session, plan: PlacementPlan, allowed: Rows, task: Task) -> str:
    has = session.columns.allocatable[:, allowed]
    rows = _asked(plan)
    lacking = [row for row in rows if has[row].max() < plan.request[row]]
    what = f"never: {task.facts.name} asks for {_asks(session, plan, lacking or rows)}"
    if not lacking:
        return f"{what}, and no single node has all of that"
    name, row = session.dimensions.named(lacking, plan.shape.request)[0]
    if not has[row].max():
        return f"{what}, and no node has any {name}"
    biggest = allowed[int(has[row].argmax())]
    among = "the biggest node" if len(allowed) == int(session.nodes.usable.sum()) else "the biggest node that takes it"
    return f"{what}; {among}, {session.names[biggest]}, has {spelled(name, has[row].max())}"


def _too_few(session: Session, plan: PlacementPlan, needed: int, held: int, nodes: int) -> str:
    holding = f"{_nodes(nodes)} {'holds' if nodes == 1 else 'hold'} {held} of them even when empty"
    return f"never: its gang needs {_pods(needed)} of {_asks(session, plan)}, and {holding}"


def _full(session: Session, job: Job, plan: PlacementPlan, allowed: Rows, missing: int) -> str:
    names, rows = session.dimensions.names, _asked(plan)
    free = np.maximum(session.columns.idle(allowed), 0)
    short = [row for row in rows if free[row].max() < plan.request[row]]
    row = (short or rows)[0]
    fit = int(_copies(plan, session.columns.idle(), allowed).sum())
    most = allowed[int(free[row].argmax())]
    further = "further " if any(job.tally[status] for status in READY) else ""
    asks = f"its gang needs {missing} {further}pod{'' if missing == 1 else 's'} of {_asks(session, plan)}"
    on_one = f"at most {spelled(names[row], free[row].max())} on one ({session.names[most]})"
    total = f"{spelled(names[row], free[row].sum())} free on {_nodes(len(allowed))}"
    if fit < missing:
        has = f", of which {fit} {'has' if fit == 1 else 'have'} room"
    elif len({each.facts.shape for each in job.tasks}) > 1:
        has = f", which {'has' if missing == 1 else 'have'} no room beside the other pods of the gang"
    else:
        has = f"; room for {fit} became free after they were tried"
    return f"not now: {asks}{has}: {total}, {on_one}" + enqueue_refusals.before(session, job)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
