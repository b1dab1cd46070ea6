"""Reservations over any course of events in virtual time, through real sessions: what always holds, and what comes at last."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyroclast.api import keys
from pyroclast_scheduler.model.reservations import read, written
from tests.counts import examples
from tests.scenarios import objects
from tests.unit.scheduler.plugins.reserving import World

NODES = 4
ARGUMENTS = st.sampled_from(
    [
        "{}",
        "{nodeOrder: idle}",
        "{locksPerCycle: 3}",
        "{locksPerCycle: all}",
        "{targetScope: queue}",
        "{maxLockedShare: 0.5}",
        "{fill: false}",
        "{assumeDuration: 20s}",
    ]
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("small"), st.integers(1, 4), st.sampled_from(["", "5s", "30s"])),
        st.tuples(st.just("large"), st.integers(2, NODES), st.sampled_from(["q", "r"])),
        st.tuples(st.just("end"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("delete large"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("shrink large"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("node goes"), st.integers(0, NODES - 1), st.just("")),
        st.tuples(st.just("node closes"), st.integers(0, NODES - 1), st.just("")),
        st.tuples(st.just("node comes"), st.integers(0, NODES - 1), st.sampled_from(["4", "8"])),
        st.tuples(st.just("restart"), st.just(0), st.just("")),
        st.tuples(st.just("wait"), st.integers(1, 40), st.just("")),
    ),
    max_size=14,
)
SLOW = settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])


class Course:
    """A world to which things happen; after each of them a period passes and what must hold is looked at."""

    def __init__(self, arguments: str) -> None:
        self.arguments = arguments
        self.world = World(NODES, arguments)
        self.count = 0
        self.large: list[str] = []
        self.small: list[str] = []
        self.changed: set[str] = set()
        self.nodes = {f"n{i}": objects.node([f"n{i}", 4, "8Gi"]) for i in range(NODES)}

    def happen(self, event: str, number: int, word: str) -> None:
        world, cache = self.world, self.world.cache
        name = f"{event.partition(' ')[0]}{self.count}"
        self.count += 1
        if event == "small":
            world.job(name, 1, cpu=number, annotations={keys.RUNNING_ESTIMATE: word} if word else {})
            self.small.append(name)
        elif event == "large":
            world.job(name, number, queue=word)
            self.large.append(name)
        elif event in {"end", "delete large"}:
            listed = self.small if event == "end" else self.large
            if listed:
                world.end(listed.pop(number % len(listed)))
        elif event == "shrink large":
            if self.large:
                world.shrink(self.large[number % len(self.large)])
        elif event.startswith("node"):
            self._node(f"n{number}", event, word)
        elif event == "restart":
            for key, state in (world.reservations or {}).items():
                group = cache.groups.current(key)
                metadata = {**msgspec.to_builtins(group.metadata), "annotations": {keys.RESERVATION: written(state)}}
                cache.group_changed(group, msgspec.convert({**msgspec.to_builtins(group), "metadata": metadata}, type(group)))
            groups = [group for key in world.reservations or {} if (group := cache.groups.current(key)) is not None]
            assert read(groups, "volcano").keys() <= (world.reservations or {}).keys()
            world.reservations = None
        self.step(seconds=float(number) if event == "wait" else 1.0)
        self.changed.clear()

    def _node(self, name: str, event: str, cpu: str) -> None:
        cache = self.world.cache
        self.changed.add(name)
        known = self.nodes.pop(name, None)
        if event == "node goes":
            for task in [task for task in cache.tasks.values() if task.node == name]:
                cache.pod_changed(task.pod, None)
            if known is not None:
                cache.node_changed(known, None)
        else:
            closed = {"unschedulable": event == "node closes"}
            self.nodes[name] = objects.node([name, cpu or "4", "8Gi", closed])
            cache.node_changed(known, self.nodes[name])

    @property
    def open(self) -> set[str]:
        return {name for name, node in self.nodes.items() if not node.spec.unschedulable}

    def step(self, seconds: float = 1.0) -> None:
        world = self.world
        before = dict(world.reservations or {})
        bound = dict(world.binds)
        world.step(seconds=seconds)
        after = world.reservations
        assert len({state.scope for state in after.values()}) == len(after), "one target in a scope"
        every = [lock.node for state in after.values() for lock in state.locks]
        assert len(set(every)) == len(every), "no node is locked for two"
        for node in every:
            assert node in self.open, "what is locked is there and open"
        for key, state in after.items():
            assert not self._is_placed(key), "what has its places has no reservation"
            if key in before and before[key].uid == state.uid:
                self._judge_dropped(key, before[key].nodes - state.nodes, state.nodes)
        for pod, node in world.binds.items():
            if pod not in bound:
                self._judge(pod, node, before)

    def _judge(self, pod: str, node: str, before) -> None:
        for key, state in before.items():
            job = pod.rpartition("-")[0]
            if node in state.nodes and key != f"t/{job}" and key in self.world.reservations:
                text = self.world.rows[job][3].get("annotations", {}).get(keys.RUNNING_ESTIMATE, "")
                seconds = float(text.removesuffix("s")) if text else 20.0 if "assume" in self.arguments else None
                assert seconds is not None, f"{pod} is on {node}, which is locked for {key}, and nobody knows how long it runs"
                assert "fill: false" not in self.arguments
                assert state.promise is not None
                assert self.world.now + seconds <= state.promise

    def _judge_dropped(self, key: str, dropped, rest) -> None:
        """A lock goes only with its node, or when the others hold what is lacking."""
        room = sum(int(self.nodes[name].status.allocatable["cpu"]) // 4 for name in rest)
        lacking = sum(not task.node for task in self.world.cache.groups.tasks_of(key))
        assert dropped <= self.changed | (self.nodes.keys() - self.open) or room >= lacking, f"{dropped} of {key} were given up"

    def _is_placed(self, key: str) -> bool:
        tasks = self.world.cache.groups.tasks_of(key)
        return bool(tasks) and all(task.node for task in tasks)


@SLOW
@given(ARGUMENTS, EVENTS)
def test_reservation_invariants_hold_over_any_sequence_of_events(arguments, events):
    course = Course(arguments)
    for event in events:
        course.happen(*event)


@SLOW
@given(
    st.sampled_from(["{}", "{nodeOrder: idle}", "{locksPerCycle: 3}", "{locksPerCycle: all}", "{assumeDuration: 3s}"]),
    st.integers(2, NODES),
    st.lists(st.integers(1, 6), min_size=6, max_size=12),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_reservation_target_is_eventually_placed_despite_endless_small_jobs(arguments, pods, lengths, said):
    world = World(NODES, arguments)
    ends: dict[str, float] = {}
    longest = max(lengths)
    for turn in range(NODES + 6 * longest + 4):
        for i in range(3):
            length = lengths[(3 * turn + i) % len(lengths)]
            world.job(f"small{turn}x{i}", 1, annotations={keys.RUNNING_ESTIMATE: f"{max(1, int(length * said))}s"})
            world.lengths[f"small{turn}x{i}"] = length
        if turn == 2:
            world.job("big", pods)
        world.step()
        for pod in world.binds:
            name = pod.rpartition("-")[0]
            ends.setdefault(name, world.now + world.lengths.get(name, 1e9))
        for name in [name for name, end in ends.items() if end <= world.now + 1e-6]:
            world.end(name)
            ends[name] = 1e12
        if sum(pod.startswith("big-") for pod in world.binds) == pods:
            world.step()
            assert "t/big" not in world.reservations, "its nodes are given back within a period"
            return
    raise AssertionError(f"not placed; {world.reservations}")
