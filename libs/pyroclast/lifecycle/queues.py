"""The state machine of a Queue: the effect of each action in each state, and how a child queue follows its parent.

A separate step marks a queue as closed by its parent. The mark is written only when the parent is closed or closing, and before
the new state is written. So a crash never leaves a mark that looks like a close by a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import Action, QueueState
from pyroclast.api.records import Queue

ROOT: Final = "root"
ORDERS: Final = (Action.OPEN_QUEUE, Action.CLOSE_QUEUE)
"""The actions that users may request for a queue."""


class Operation(Enum):
    """How a state is reached: by a plain update, or with the effects of opening or closing."""

    SYNC = "sync"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on a queue, and the state of the queue after the operation."""

    operation: Operation
    to: QueueState


_EMPTIED: Final = None  # the state is Closed without PodGroups, and Closing until the last PodGroup is deleted

_TABLE: Final[Mapping[QueueState, Mapping[str, tuple[Operation, QueueState | None]]]] = {
    QueueState.OPEN: {
        Action.OPEN_QUEUE: (Operation.SYNC, QueueState.OPEN),
        Action.CLOSE_QUEUE: (Operation.CLOSE, _EMPTIED),
        Action.SYNC_QUEUE: (Operation.SYNC, QueueState.OPEN),
    },
    QueueState.CLOSED: {
        Action.OPEN_QUEUE: (Operation.OPEN, QueueState.OPEN),
        Action.CLOSE_QUEUE: (Operation.SYNC, QueueState.CLOSED),
        Action.SYNC_QUEUE: (Operation.SYNC, QueueState.CLOSED),
    },
    QueueState.CLOSING: {
        Action.OPEN_QUEUE: (Operation.OPEN, QueueState.OPEN),
        Action.CLOSE_QUEUE: (Operation.SYNC, _EMPTIED),
        Action.SYNC_QUEUE: (Operation.SYNC, _EMPTIED),
    },
    QueueState.UNKNOWN: {
        Action.OPEN_QUEUE: (Operation.OPEN, QueueState.OPEN),
        Action.CLOSE_QUEUE: (Operation.CLOSE, _EMPTIED),
        Action.SYNC_QUEUE: (Operation.SYNC, QueueState.UNKNOWN),
    },
}


def step(state: QueueState, action: str, *, pod_groups: int) -> Step:
    """Return the effect of `action` on a queue in `state` with this number of PodGroups. An unknown action only synchronises."""
    row = _TABLE[state]
    operation, to = row.get(action, row[Action.SYNC_QUEUE])
    return Step(operation, to or (QueueState.CLOSING if pod_groups else QueueState.CLOSED))


def meaningless(state: QueueState, action: str) -> str:
    """Return the reason why `action` has no effect on a queue in `state`. Empty when it has one."""
    if action == Action.SYNC_QUEUE:
        return ""
    if action not in ORDERS:
        return f"that is no action of a Queue, which are {' and '.join(ORDERS)}"
    return f"the queue is {state} already" if _TABLE[state][action][0] is Operation.SYNC else ""


def state_of(queue: Queue) -> QueueState:
    """Return the state of `queue`. A queue without a state is Open."""
    return queue.status.state or QueueState.OPEN


def parent_of(queue: Queue) -> str:
    """Return the name of the parent of a queue. Empty for the root queue."""
    return "" if queue.metadata.name == ROOT else queue.spec.parent or ROOT


def following_parent(queue: Queue, parent: Queue | None) -> Action | None:
    """Return the action that `queue` needs because of its parent's state.

    A queue closes when its parent closes. A queue that its parent has closed opens again with its parent.
    """
    if parent is None:
        return None
    match state_of(parent):
        case QueueState.CLOSED | QueueState.CLOSING if not _is_shut(queue):
            return Action.CLOSE_QUEUE
        case QueueState.OPEN if _is_shut(queue) and is_marked(queue):
            return Action.OPEN_QUEUE
    return None


def is_marked(queue: Queue) -> bool:
    """Return whether `queue` has the mark that its parent closed it."""
    return queue.metadata.annotations.get(keys.CLOSED_BY_PARENT) == "true"


def bears_stale_mark(queue: Queue, parent: Queue | None) -> bool:
    """Return whether the mark of `queue` is stale: the queue was never closed after it, or was opened since."""
    return is_marked(queue) and not _is_shut(queue) and (parent is None or not _is_shut(parent))


def refusal_to_open(queue: Queue, parent: Queue | None) -> str | None:
    """Return the reason why `queue` cannot be opened now. None when it can."""
    name = parent_of(queue)
    if name in ("", ROOT):
        return None
    if parent is None:
        return f"Failed to open queue {queue.metadata.name} because its parent queue {name} does not exist."
    if _is_shut(parent):
        return (
            f"Failed to open queue {queue.metadata.name} because its parent queue {name} is closing or closed. "
            "Open the parent queue first."
        )
    return None


def _is_shut(queue: Queue) -> bool:
    return state_of(queue) in (QueueState.CLOSED, QueueState.CLOSING)
