import pytest

from pyroclast.api import keys
from pyroclast.api.enums import Action, QueueState
from pyroclast.api.records import Queue
from pyroclast.lifecycle import queues
from pyroclast.lifecycle.queues import Operation, Step
from tests.unit.lifecycle.builders import decode

S, Op, A = QueueState, Operation, Action


def queue(name, state=None, parent="", by=None):
    meta = {"name": name, "annotations": {keys.CLOSED_BY_PARENT: by} if by else {}}
    return decode({"metadata": meta, "spec": {"parent": parent}, "status": {"state": state} if state else {}}, Queue)


@pytest.mark.parametrize(
    ("state", "action", "groups", "want"),
    [
        (S.OPEN, A.OPEN_QUEUE, 0, Step(Op.SYNC, S.OPEN)),
        (S.OPEN, A.CLOSE_QUEUE, 0, Step(Op.CLOSE, S.CLOSED)),
        (S.OPEN, A.CLOSE_QUEUE, 1, Step(Op.CLOSE, S.CLOSING)),
        (S.OPEN, A.SYNC_QUEUE, 1, Step(Op.SYNC, S.OPEN)),
        (S.CLOSED, A.OPEN_QUEUE, 0, Step(Op.OPEN, S.OPEN)),
        (S.CLOSED, A.CLOSE_QUEUE, 1, Step(Op.SYNC, S.CLOSED)),
        (S.CLOSED, A.SYNC_QUEUE, 1, Step(Op.SYNC, S.CLOSED)),
        (S.CLOSING, A.OPEN_QUEUE, 1, Step(Op.OPEN, S.OPEN)),
        (S.CLOSING, A.CLOSE_QUEUE, 1, Step(Op.SYNC, S.CLOSING)),
        (S.CLOSING, A.SYNC_QUEUE, 0, Step(Op.SYNC, S.CLOSED)),
        (S.UNKNOWN, A.OPEN_QUEUE, 0, Step(Op.OPEN, S.OPEN)),
        (S.UNKNOWN, A.CLOSE_QUEUE, 1, Step(Op.CLOSE, S.CLOSING)),
        (S.UNKNOWN, A.SYNC_QUEUE, 1, Step(Op.SYNC, S.UNKNOWN)),
        (S.CLOSING, "AbortJob", 1, Step(Op.SYNC, S.CLOSING)),
    ],
)
def test_next_queue_state_follows_from_state_action_and_podgroup_count(state, action, groups, want):
    assert queues.step(state, action, pod_groups=groups) == want


def test_every_queue_state_handles_every_action():
    for state in QueueState:
        for action in (*Action, "Unheard"):
            assert isinstance(queues.step(state, action, pod_groups=0).to, QueueState)


def test_a_queue_without_a_state_is_open_and_without_a_parent_is_under_the_root():
    assert queues.state_of(queue("q")) is S.OPEN
    assert queues.parent_of(queue("q")) == "root"
    assert queues.parent_of(queue("q", parent="p")) == "p"
    assert queues.parent_of(queue("root")) == ""


@pytest.mark.parametrize(
    ("child", "parent", "want"),
    [
        (queue("c", S.OPEN, "p"), queue("p", S.CLOSED), A.CLOSE_QUEUE),
        (queue("c", None, "p"), queue("p", S.CLOSING), A.CLOSE_QUEUE),
        (queue("c", S.CLOSED, "p"), queue("p", S.CLOSED), None),
        (queue("c", S.CLOSED, "p", by="true"), queue("p", S.OPEN), A.OPEN_QUEUE),
        (queue("c", S.CLOSED, "p", by="false"), queue("p", S.OPEN), None),
        (queue("c", S.CLOSED, "p"), queue("p", S.OPEN), None),
        (queue("c", S.OPEN, "p"), queue("p", S.OPEN), None),
        (queue("c", S.OPEN, "p"), None, None),
    ],
)
def test_child_queue_closes_with_its_parent_and_reopens_only_if_the_parent_closed_it(child, parent, want):
    assert queues.following_parent(child, parent) == want


@pytest.mark.parametrize(
    ("child", "parent", "want"),
    [
        (queue("c", S.OPEN, "p", by="true"), queue("p", S.OPEN), True),
        (queue("c", S.OPEN, "p", by="true"), None, True),
        (queue("c", S.OPEN, "p", by="true"), queue("p", S.CLOSING), False),
        (queue("c", S.CLOSED, "p", by="true"), queue("p", S.OPEN), False),
        (queue("c", S.OPEN, "p", by="false"), queue("p", S.OPEN), False),
    ],
)
def test_closed_by_parent_annotation_is_stale_on_an_open_queue_unless_its_parent_closes(child, parent, want):
    assert queues.bears_stale_mark(child, parent) is want


def test_queue_is_refused_to_open_while_its_parent_is_closing():
    shut = queue("p", S.CLOSING)
    assert queues.refusal_to_open(queue("c", S.CLOSED, "p"), shut) == (
        "Failed to open queue c because its parent queue p is closing or closed. Open the parent queue first."
    )
    assert queues.refusal_to_open(queue("c", S.CLOSED, "p"), queue("p", S.OPEN)) is None
    assert queues.refusal_to_open(queue("c", S.CLOSED), None) is None
