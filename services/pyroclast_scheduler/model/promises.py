"""Promises: how much room is kept for each gang that was let in, and why. The sums of all quota plugins follow from here.

A gang is let in before its pods exist, so that its minimum must be kept for it until the pods are placed. The obvious way keeps
the minimum of every PodGroup in phase Inqueue. One gang that can never start then stops the cluster. Therefore:

- A promise belongs to a gang that can start or is starting. A gang that something other than room holds up is owed nothing. What
  holds it up is read from the condition that the last session wrote, so that a restart changes nothing.
- A gang whose pods are all there is owed what these pods can still use, and not what its PodGroup asks for.
- A gang that lost members is owed certain places instead of amounts, see `model.recovery`.
- The phase Completed is final while there are no further pods, so a gang that ended is owed nothing.

`session.promises` takes promises back: from gangs whose pods do not come, and for gangs with a higher priority.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import PodGroupConditionType, PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import Group, GroupStatus
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.recovery import has_lost_members
from pyroclast_scheduler.model.resource_sums import TaskSums
from pyroclast_scheduler.model.tasks import ALLOCATED

_NOTHING: Final[Amounts] = {}
_NEVER: Final = "never:"
_HELD_UP: Final = frozenset({
    PendingReason.SUSPENDED,
    PendingReason.WAITS_FOR_TASK,
    PendingReason.WAITS_FOR_ENTRY,
    PendingReason.CLAIM_MISSING,
    PendingReason.PODS_REFUSED,
    PendingReason.LEFT_OUT,
    PendingReason.NOT_LET_IN,
    PendingReason.ABOVE_QUEUE_LIMIT,
    PendingReason.ABOVE_CLUSTER,
    PendingReason.BUDGET_SPENT,
    PendingReason.PERSON_LIMIT,
    PendingReason.GATED,
    PendingReason.NO_NODE_ALLOWED,
    PendingReason.NO_NODE_BIG_ENOUGH,
    PendingReason.TOO_FEW_NODES,
    PendingReason.NODES_REFUSE,
})  # fmt: skip
"""Codes of gangs that more room would not help."""


class Why(StrEnum):
    """Why a gang is owed room, or is owed none."""

    STARTING = "its pods are being created"
    WAITS_FOR_NODES = "its pods wait for room on nodes"
    BELOW_MINIMUM = "it runs and uses less than its minimum resources"
    NOT_LET_IN = "it is not let in"
    NO_MINIMUM = "its PodGroup declares no minimum resources"
    LOST_PODS = "it lost pods; their places are kept for new ones"
    USES_ALL = "its pods use or request all that they can"
    HELD_UP = "something other than room holds it up"
    ENDED = "it ended"


class Promise(NamedTuple):
    """The room that is kept for one gang.

    Attributes:
        why: the reason.
        amounts: what is kept; empty for nothing.
        whole: the same as the plugin overcommit counts it, without subtracting what an Inqueue gang has allocated.
    """

    why: Why
    amounts: Amounts = _NOTHING
    whole: Amounts = _NOTHING


def promise_to(group: Group, least: Amounts | None, sums: TaskSums) -> Promise:
    """Return what is owed to `group`. `least`: its minimum resources; None if there are none. `sums`: of its tasks."""
    phase, tally = group.status.phase, sums.tally
    if phase is PodGroupPhase.COMPLETED:
        return Promise(Why.ENDED)
    if has_lost_members(group, tally):
        return Promise(Why.LOST_PODS)
    is_running = phase is PodGroupPhase.RUNNING and sum(tally[status] for status in ALLOCATED) >= group.spec.min_member
    if phase is not PodGroupPhase.INQUEUE and not is_running:
        return Promise(Why.NOT_LET_IN)
    if least is None:
        return Promise(Why.NO_MINIMUM)
    if not is_running and (group.spec.hold is not None or is_held_up(group.status)):
        return Promise(Why.HELD_UP)
    if not is_running:
        return promise_on_entry(group, least, sums)
    amounts = beyond(_at_most(beyond(least, sums.allocated), sums.pending), sums.gated)
    return Promise(Why.BELOW_MINIMUM, amounts, amounts) if amounts else Promise(Why.USES_ALL)


def promise_on_entry(group: Group, least: Amounts, sums: TaskSums) -> Promise:
    """Return what is owed to `group` from when it is let in until it has its minimum."""
    why, amounts, whole = Why.STARTING, beyond(least, sums.allocated), least
    if sums.tally.valid >= group.spec.min_member:
        why = Why.WAITS_FOR_NODES
        amounts, whole = _at_most(amounts, sums.pending), _at_most(whole, sums.pending, sums.allocated)
    amounts, whole = beyond(amounts, sums.gated), beyond(whole, sums.gated)
    return Promise(why, amounts, whole) if amounts or whole else Promise(Why.USES_ALL)


def is_held_up(status: GroupStatus) -> bool:
    """Whether the last session found that something other than room keeps a gang from starting."""
    for condition in status.conditions:
        if condition.type == PodGroupConditionType.UNSCHEDULABLE and condition.status == "True":
            reason, _, text = pending.parted(condition.message)[1].partition(": ")
            return reason in _HELD_UP or condition.reason in _HELD_UP or text.startswith(_NEVER)
    return False


def beyond(amounts: Amounts, less: Amounts) -> Amounts:
    """Return `amounts` minus `less`, without negative amounts."""
    return {name: rest for name, amount in amounts.items() if (rest := amount - less.get(name, 0)) > 0} or _NOTHING


def _at_most(amounts: Amounts, *limits: Amounts) -> Amounts:
    """Return `amounts`, each at most the sum of that resource over `limits`."""
    least = {name: min(amount, sum(limit.get(name, 0) for limit in limits)) for name, amount in amounts.items()}
    return {name: amount for name, amount in least.items() if amount > 0} or _NOTHING
