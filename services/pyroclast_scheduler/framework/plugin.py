"""What a plugin is: built anew for each session from its arguments, it registers functions at extension points.

The signature of each point:

JOB_ORDER, QUEUE_ORDER, TASK_ORDER   (job | queue | task) -> comparable; smaller goes first
JOB_READY                            (job) -> bool
JOB_PIPELINED, JOB_ENQUEUEABLE       (job) -> Vote
JOB_VALID                            (job) -> reason and message why not, or None
JOB_ENQUEUED                         (job) -> None
JOB_STARVING                         (job) -> bool
OVERUSED                             (queue, extra vector) -> bool; monotone in extra
ALLOCATABLE                          (queue, plan, count) -> how many of `count` such pods the queue may still take
PREEMPTIVE                           (queue, vector) -> bool
PREEMPTABLE, RECLAIMABLE             (preemptor, job of it, candidates) -> victims, or None to abstain
PRE_PREDICATE                        (task, plan) -> why the task fits no node whatever they have, or None
FILTER                               an object with the methods of `plans.Filter`
COUPLED_FILTER                       (task, plan) -> refusals that depend on where other pods are, or None
NODE_ORDER                           (plan, load) -> scores, see `plans.NodeScore`
BATCH_NODE_ORDER                     (task, plan, candidates mask) -> scores for all nodes, or None
EVENTS                               (move, sign) -> None: a move was made (1) or undone (−1)
CLOSE                                () -> None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.points import Point

if TYPE_CHECKING:
    from pyroclast_scheduler.framework.session import Session

__all__ = ["Action", "Hooks", "Plugin", "PluginFactory", "Vote"]

Hooks = Mapping[Point, Any]


class Vote(IntEnum):
    """How a plugin votes."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Plugin(Protocol):
    """One listing of a plugin in one session."""

    def open(self, session: Session) -> Hooks:
        """Look at the session and say what to register."""


PluginFactory = Callable[[Arguments], Plugin]


class Action(Protocol):
    """One step of a session."""

    def __call__(self, session: Session, arguments: Arguments) -> None:
        """Decide, and apply to the session what was decided."""
        ...
