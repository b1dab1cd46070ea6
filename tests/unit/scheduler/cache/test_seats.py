"""Seats in the cache: counted from what PodGroups and pods show, whoever looks and whenever it starts to."""

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.seats.contract import (
    PodTemplate,
    Seat,
    Seats,
    TaskSeats,
    asking,
    encode,
    is_seat,
    parse_placement,
    placed,
    template_of,
)
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.seats import LINGER_SECONDS, has_seats
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.shell.patch_queue import Placements
from tests.scenarios import objects
from tests.scenarios.taking import assume_all
from tests.unit.scheduler.cache.test_cache import changed, used


class Clock:
    seconds = 100.0

    def __call__(self):
        return self.seconds


def pod(index, *, cpu=2, node=""):
    made = objects.pod([f"g-w-{index}", "g", "-", cpu, "1Gi", {"role": "w"}])
    return changed(made, spec__nodeName=node, metadata__annotations={**made.metadata.annotations, keys.TASK_SPEC: "w"})


def group(count=2, *, nodes=None, phase=PodGroupPhase.PENDING, seats=None, placement=None, generation=1, asked=None, cpu=2):
    """A PodGroup with seats; `nodes`: by index, where they are placed. `asked`: the indices that it asks for."""
    tasks = (TaskSeats(role="w", prefix="g-w-", count=count, pod=template_of(pod(0, cpu=cpu))),)
    wanted = None if asked is None else asking(Seat("w", index) for index in asked)
    published = Seats(tasks=tasks, asked=wanted, generation=1 if asked is None else generation)
    annotations = {keys.SEATS: seats or encode(published)}
    if nodes is not None or placement:
        found = {Seat("w", index): node for index, node in (nodes or {}).items()}
        annotations[keys.PLACEMENT] = placement or encode(placed(generation, found))
    made = objects.pod_group(["g", "q", count])
    return changed(made, metadata__annotations=annotations, status__phase=str(phase))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return made(clock)


def made(clock, *, places=True):
    cache = Cache(places_seats=places, now=clock)
    cache.queue_changed(None, objects.queue(["q"]))
    cache.node_changed(None, objects.node(["n1", 4, "8Gi"]))
    cache.node_changed(None, objects.node(["n2", 4, "8Gi"]))
    return cache


def seats_of(cache):
    return {task.name: (task.status, task.node) for task in cache.tasks.values() if is_seat(task.uid)}


OPEN = (TaskStatus.PENDING, "")


def on(node):
    return (TaskStatus.BINDING, node)


INQUEUE, RUNNING = PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING
SHOWN = {
    "open seats are pending tasks": ({}, [], {"g-w-0": OPEN, "g-w-1": OPEN}),
    "placed seats use their node": ({"nodes": {0: "n1", 1: "n2"}, "phase": INQUEUE}, [], {"g-w-0": on("n1"), "g-w-1": on("n2")}),
    "no placed seat whose pod existed before": ({"nodes": {0: "n1", 1: "n2"}, "phase": INQUEUE}, [1], {"g-w-0": on("n1")}),
    "no open seats beside pods": ({}, [0], {}),
    "no open seats past phase Pending": ({"phase": INQUEUE}, [], {}),
    "no placement of another generation": ({"nodes": {0: "n1"}, "generation": 4}, [], {"g-w-0": OPEN, "g-w-1": OPEN}),
}


@pytest.mark.parametrize(("given", "pods", "want"), SHOWN.values(), ids=SHOWN)
def test_the_seats_of_a_podgroup_that_are_tasks(cache, given, pods, want):
    for index in pods:
        cache.pod_changed(None, pod(index, node="n2"))
    cache.group_changed(None, group(**given))
    assert seats_of(cache) == want
    (facts,) = cache.snapshot().jobs
    assert {task.role for task in facts.tasks} == ({"w"} if want or pods else set())


def test_with_seat_placement_disabled_open_seats_are_no_tasks_but_placed_seats_count(clock):
    cache = made(clock, places=False)
    cache.group_changed(None, group())
    assert seats_of(cache) == {}
    cache.group_changed(None, group(nodes={0: "n1", 1: "n1"}, phase=INQUEUE))
    assert used(cache, "n1") == 4000


def test_placed_seats_use_their_node_while_their_pods_do_not_exist(cache):
    cache.group_changed(None, group(nodes={0: "n1", 1: "n2"}, phase=INQUEUE))
    assert used(cache, "n1") == used(cache, "n2") == 2000
    cache.pod_changed(None, pod(0, node="n1"))
    assert seats_of(cache) == {"g-w-1": on("n2")}
    assert used(cache, "n1") == used(cache, "n2") == 2000
    cache.pod_changed(pod(0, node="n1"), None)
    assert seats_of(cache) == {"g-w-0": on("n1"), "g-w-1": on("n2")}


def test_the_seats_of_a_gang_are_open_while_it_has_no_pods_and_is_pending(cache):
    cache.group_changed(None, group())
    cache.pod_changed(None, pod(0))
    assert seats_of(cache) == {}
    cache.pod_changed(pod(0), None)
    assert len(seats_of(cache)) == 2
    cache.group_changed(None, group(phase=INQUEUE))
    assert seats_of(cache) == {}


def claim(cache, nodes):
    uids = {task.name: uid for uid, task in cache.tasks.items()}
    pairs = [(uids[name], node) for name, node in nodes.items()]
    assert assume_all(cache, pairs) is None
    cache.seats.claim("t/g", pairs)


def test_only_claimed_seats_count_while_the_placement_is_written(cache):
    cache.group_changed(None, group(3))
    claim(cache, {"g-w-0": "n1", "g-w-1": "n1"})
    cache.groups.believe("t/g", msgspec.structs.replace(group().status, phase=INQUEUE))
    assert seats_of(cache) == {"g-w-0": on("n1"), "g-w-1": on("n1")}
    placement = parse_placement(cache.seats.placement("t/g"))
    assert placement.nodes == {"w": (("n1", 2),)}
    cache.group_changed(None, group(3, nodes={0: "n1", 1: "n1"}, phase=INQUEUE))
    assert seats_of(cache) == {"g-w-0": on("n1"), "g-w-1": on("n1")}
    assert cache.seats.claims() == []


def test_claimed_seats_are_open_again_after_a_failed_placement_write(cache):
    cache.group_changed(None, group())
    claim(cache, {"g-w-0": "n1", "g-w-1": "n2"})
    cache.seats.unclaim("t/g")
    assert seats_of(cache) == {"g-w-0": OPEN, "g-w-1": OPEN}
    assert used(cache, "n1") == 0


def test_a_placement_written_by_another_leader_overrides_claimed_seats(cache):
    cache.group_changed(None, group())
    claim(cache, {"g-w-0": "n1", "g-w-1": "n1"})
    cache.group_changed(None, group(nodes={0: "n2", 1: "n2"}, phase=INQUEUE))
    assert (used(cache, "n1"), used(cache, "n2")) == (0, 4000)


def test_withdrawn_seats_use_their_node_until_the_withdrawal_is_confirmed(cache):
    withdrawn = msgspec.structs.replace(placed(1, {Seat("w", 0): "n1"}), withdrawn="Stalled")
    cache.group_changed(None, group(placement=encode(withdrawn), phase=INQUEUE))
    assert used(cache, "n1") == 2000
    cache.group_changed(None, group(seats=encode(Seats(generation=2, way="Stalled")), phase=INQUEUE))
    assert used(cache, "n1") == 0


def test_seats_of_a_deleted_podgroup_use_their_node_until_the_linger_time_ends(cache, clock):
    there = group(nodes={0: "n1", 1: "n1"}, phase=INQUEUE)
    cache.group_changed(None, there)
    cache.group_changed(there, None)
    clock.seconds += LINGER_SECONDS - 0.1
    cache.seats.expire()
    assert used(cache, "n1") == 4000
    clock.seconds += 0.2
    cache.seats.expire()
    assert (used(cache, "n1"), seats_of(cache)) == (0, {})


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        pytest.param({"seats": "nonsense"}, "metadata.annotations[pyroclast.dev/seats]", id="seats"),
        pytest.param({"placement": "{}x"}, "metadata.annotations[pyroclast.dev/placement]", id="placement"),
        pytest.param({"nodes": {7: "n1"}}, "there is no seat 7", id="unknown seat"),
    ],
)
def test_invalid_seats_and_placements_are_ignored_and_reported_until_corrected(cache, annotations, problem):
    cache.group_changed(None, group(**annotations))
    assert seats_of(cache) == {}
    assert problem in cache.seats.problems["t/g"]
    cache.group_changed(None, group())
    assert len(seats_of(cache)) == 2
    assert cache.seats.problems == {}


def test_a_seat_placed_on_a_missing_node_counts_once_the_node_is_created(cache):
    cache.group_changed(None, group(nodes={0: "n9"}, phase=INQUEUE))
    cache.node_changed(None, objects.node(["n9", 4, "8Gi"]))
    assert used(cache, "n9") == 2000


def test_seats_with_an_invalid_resource_quantity_are_excluded_with_a_reason(cache):
    template = PodTemplate(spec=template_of(pod(0, cpu="many")).spec)
    text = encode(Seats(tasks=(TaskSeats(role="w", prefix="g-w-", count=1, pod=template),)))
    cache.group_changed(None, group(seats=text))
    assert seats_of(cache) == {}
    assert any("many" in reason for reason in cache.problems.values())


def test_a_native_podgroup_has_no_seats(cache):
    cache.group_changed(None, group())
    ours = cache.groups.current("t/g")
    assert has_seats(ours)
    assert not has_seats(msgspec.structs.replace(ours, keeps_phase=False))


def running(cache, *indices, count=3):
    """A gang that runs with the pods of these indices."""
    for index in indices:
        cache.pod_changed(None, pod(index, node="n1"))
    cache.group_changed(None, group(count, phase=RUNNING))


def answer(cache):
    """What is written of the seats that the gang asks for, after a session."""
    cache.seats.session_begins()
    cache.seats.seal({"t/g"}, may=lambda _: True)
    return parse_placement(cache.seats.placement("t/g"))


def test_seats_requested_by_a_running_gang_are_pending_tasks(cache):
    running(cache, 0, 1)
    assert seats_of(cache) == {}
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1, 2], generation=2))
    assert seats_of(cache) == {"g-w-2": OPEN}  # 1 is there
    cache.pod_changed(pod(1, node="n1"), None)
    assert seats_of(cache) == {"g-w-1": OPEN, "g-w-2": OPEN}


def test_the_placement_names_a_node_or_none_for_each_requested_seat(cache):
    running(cache, 0)
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1, 2], generation=2))
    assert cache.seats.placement("t/g") == ""  # no session has looked
    claim(cache, {"g-w-2": "n2"})
    found = answer(cache)
    assert (found.generation, found.nodes) == (2, {"w": (("", 2), ("n2", 1))})
    assert seats_of(cache) == {"g-w-2": on("n2")}
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1, 2], generation=2, nodes={1: "", 2: "n2"}))
    assert seats_of(cache) == {"g-w-2": on("n2")}
    assert cache.seats.claims() == []
    cache.pod_changed(None, pod(2, node="n2"))
    assert cache.seats.is_used_up("t/g")
    emptied = cache.seats.emptied("t/g")
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1, 2], generation=2, placement=emptied))
    cache.pod_changed(pod(2, node="n2"), None)
    assert seats_of(cache) == {}  # until it asks again


@pytest.mark.parametrize(("asked", "left"), [(None, None), ([0], '{"generation":2,"version":1}')])
def test_a_placement_removal_patch_names_the_uid_and_resource_version_of_the_podgroup(cache, asked, left):
    """Else a scheduler that leads no more would take away the placement that the next one has written."""
    generation = 1 if asked is None else 2
    there = group(1, phase=INQUEUE, asked=asked, generation=generation, nodes={0: "n1"})
    cache.group_changed(None, there)
    cache.pod_changed(None, pod(0, node="n1"))
    found = cache.groups.current("t/g")
    status = msgspec.structs.replace(found.status, phase=RUNNING)
    patch = Placements(None, cache).joined(found, status, {"status": {"phase": "Running"}})
    meta = there.metadata
    assert patch["metadata"] == {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "annotations": {keys.PLACEMENT: left},
    }


def test_a_session_answers_only_seat_requests_made_before_it_began(cache):
    running(cache, 0)
    cache.seats.session_begins()
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1], generation=2))
    cache.seats.seal({"t/g"}, may=lambda _: True)
    assert cache.seats.answers() == []
    cache.seats.session_begins()
    cache.seats.seal({"another"}, may=lambda _: True)
    cache.seats.seal({"t/g"}, may=lambda _: False)
    assert cache.seats.answers() == []
    cache.seats.seal({"t/g"}, may=lambda _: True)
    assert cache.seats.answers() == ["t/g"]
    cache.seats.unclaim("t/g")
    assert seats_of(cache) == {"g-w-1": OPEN}


def test_claimed_seats_are_dropped_when_the_requested_generation_changes(cache):
    running(cache, 0)
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1], generation=2))
    claim(cache, {"g-w-1": "n2"})
    before = {task.name: uid for uid, task in cache.tasks.items()}["g-w-1"]
    cache.group_changed(None, group(3, phase=RUNNING, asked=[1], generation=3, cpu=3))
    assert seats_of(cache) == {"g-w-1": OPEN}
    assert used(cache, "n2") == 0
    assert before not in cache.tasks  # a session that still has it places nothing with it
    assert cache.seats.claims() == []


def test_a_deleted_podgroup_requests_no_seats(cache):
    running(cache, 0)
    there = group(3, phase=RUNNING, asked=[1], generation=2)
    cache.group_changed(None, there)
    cache.group_changed(there, changed(there, metadata__deletionTimestamp="2026-01-01T00:00:00Z"))
    assert (seats_of(cache), cache.seats.asking()) == ({}, frozenset())
    cache.group_changed(there, None)
    cache.group_changed(None, group(3, phase=RUNNING))
    assert cache.seats.asking() == frozenset()


def gang_named(name, node):
    """As `group`, of another name."""
    made = group(nodes={0: node, 1: node}, phase=INQUEUE)
    texts = {key: text.replace('"g-w-', f'"{name}-w-') for key, text in made.metadata.annotations.items()}
    return changed(made, metadata__name=name, metadata__uid=name, metadata__annotations=texts)


def test_pod_creation_of_an_earlier_gang_resets_the_idle_time_of_later_gangs(cache, clock):
    for name in ("a", "b"):
        cache.group_changed(None, gang_named(name, "n1" if name == "a" else "n2"))
        clock.seconds += 1

    def idle():
        return {key: clock.seconds - seats.since for key, seats in cache.seats.outstanding()}

    clock.seconds += 25
    first = changed(pod(0, node="n1"), metadata__name="a-w-0", metadata__uid="a0")
    cache.pod_changed(None, changed(first, metadata__annotations={**first.metadata.annotations, keys.GROUP_NAME: "a"}))
    clock.seconds += 20
    assert idle() == {"t/a": 20, "t/b": 20}
    second = changed(pod(0, node="n2"), metadata__name="b-w-0", metadata__uid="b0")
    cache.pod_changed(None, changed(second, metadata__annotations={**second.metadata.annotations, keys.GROUP_NAME: "b"}))
    assert idle() == {"t/a": 20, "t/b": 0}
