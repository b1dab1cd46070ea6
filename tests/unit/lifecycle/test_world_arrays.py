"""An array under everything at once: no index is lost, none runs again after its success, and none more often than it may."""

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import Array, ArrayStatus
from pyroclast.lifecycle.gang import arrays
from pyroclast.lifecycle.gang.members import index_of
from pyroclast.resources import indexes
from tests.counts import examples

from .builders import job
from .world import Crash, World

ENDED = {JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED}
INDEXES = ("0-5", "0-11:2", "3,5-7,20-26:3", "1")


class ArrayWorld(World):
    """A world that knows which pods ended as their node meant, and what the controller could see of it."""

    def __init__(self, owner):
        super().__init__(owner)
        self.succeeded: set[int] = set()
        self.failures: dict[int, int] = {}
        self.all_failures = 0
        self.by_strangers = False

    @property
    def array(self) -> Array:
        return self.job.spec.tasks[0].array

    def progress(self):
        return arrays.read(self.array, self.job.status.arrays.get("a", ArrayStatus()))

    def _create(self, slot):
        living = sum(pod.status.phase in (PodPhase.PENDING, PodPhase.RUNNING) for pod in self.pods.values())
        assert living < (self.array.max_parallel or 99), "more pods than maxParallel"
        assert indexes.contains(indexes.parse(self.array.indexes), slot.index)
        assert slot.index not in self.succeeded, f"index {slot.index} runs again although it has succeeded"
        assert self.failures.get(slot.index, 0) <= self.array.retries_per_index, f"index {slot.index} runs too often"
        assert not indexes.has(self.progress().recorded, slot.index)
        super()._create(slot)

    def end(self, name, phase):
        pod = self.pods[name]
        self.set_phase(name, phase)
        if pod.metadata.is_terminating or arrays_version(pod) < self.job.status.version or self._is_over(pod):
            return
        if phase is PodPhase.SUCCEEDED:
            self.succeeded.add(index_of(pod))
        else:
            self.failures[index_of(pod)] = self.failures.get(index_of(pod), 0) + 1
            self.all_failures += 1

    def _is_over(self, pod):
        return self.job.status.state.phase in ENDED or indexes.has(self.progress().recorded, index_of(pod))

    def delete(self, name, *, noticed):
        pod, index = self.pods[name], index_of(self.pods[name])
        seen = self.progress()
        self.vanish(name, noticed=noticed)
        if pod.metadata.uid in self.own:
            return
        self.by_strangers = True
        if not noticed and not indexes.has(seen.recorded, index):
            self.succeeded.discard(index)
        if pod.status.phase is PodPhase.FAILED and seen.failures.get(index, 0) <= arrays.tries_of(pod):
            self.failures[index] = arrays.tries_of(pod)

    def change_array(self, **changes):
        task = self.job.spec.tasks[0]
        tasks = (msgspec.structs.replace(task, array=msgspec.structs.replace(task.array, **changes)),)
        meta = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        self.job = msgspec.structs.replace(self.job, spec=msgspec.structs.replace(self.job.spec, tasks=tasks), metadata=meta)


def arrays_version(pod):
    return int(pod.metadata.annotations["volcano.sh/job-version"])


class ArrayMachine(RuleBasedStateMachine):
    @initialize(
        which=st.sampled_from(INDEXES),
        parallel=st.sampled_from([None, 1, 2, 4]),
        retries=st.integers(0, 2),
        limit=st.sampled_from([None, None, 1, "50%"]),
        keep=st.booleans(),
    )
    def start(self, which, parallel, retries, limit, keep):
        given = {"maxParallel": parallel, "maxFailures": limit, "retriesPerIndex": retries, "keepPods": keep}
        array = {"indexes": which, **{key: value for key, value in given.items() if value is not None}}
        task = {"name": "a", "replicas": 0, "minAvailable": 1, "array": array, "template": {"spec": {"containers": []}}}
        self.world = ArrayWorld(job(task, phase=JobPhase.NEW, maxRetry=9))

    @rule()
    def look(self):
        self.world.reconcile()

    @rule(after=st.integers(0, 6))
    def look_and_be_killed(self, after):
        self.world.steps_until_crash = after
        try:
            self.world.reconcile()
        except Crash:
            noticed = self.world.progress().recorded
            if self.world.by_strangers:  # what only the dead controller had seen
                there = {index_of(pod) for pod in self.world.pods.values()}
                self.world.succeeded = {each for each in self.world.succeeded if each in there or indexes.has(noticed, each)}
        finally:
            self.world.steps_until_crash = None

    @rule()
    def the_array_goes_on(self):
        for _ in range(2):
            self.world.reconcile()
            self.world.admit()
        for name, pod in self.world.pods.items():
            if pod.status.phase is PodPhase.PENDING and not pod.metadata.is_terminating:
                self.world.set_phase(name, PodPhase.RUNNING)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), phase=st.sampled_from([PodPhase.SUCCEEDED, PodPhase.SUCCEEDED, PodPhase.FAILED]))
    def a_pod_ends(self, data, phase):
        name = data.draw(st.sampled_from(sorted(self.world.pods)))
        if self.world.pods[name].status.phase in (PodPhase.PENDING, PodPhase.RUNNING):
            self.world.end(name, phase)

    @precondition(lambda self: self.world.pods)
    @rule()
    def the_first_pod_fails(self):
        first = min(self.world.pods, key=lambda name: index_of(self.world.pods[name]))
        if self.world.pods[first].status.phase in (PodPhase.PENDING, PodPhase.RUNNING):
            self.world.end(first, PodPhase.FAILED)
        self.world.reconcile()
        self.pods_that_go_are_gone()
        self.world.reconcile()

    @rule()
    def pods_that_go_are_gone(self):
        for name in self.world.going():
            self.world.vanish(name)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), noticed=st.booleans())
    def a_stranger_deletes_a_pod(self, data, noticed):
        self.world.delete(data.draw(st.sampled_from(sorted(self.world.pods))), noticed=noticed)

    @rule(parallel=st.sampled_from([None, 1, 3]))
    def a_user_changes_the_limit(self, parallel):
        self.world.change_array(max_parallel=parallel)

    @rule(more=st.integers(1, 3))
    def a_user_adds_indexes(self, more):
        last = indexes.parse(self.world.array.indexes)[-1][-1]
        if last < 60 and self.world.job.status.state.phase not in ENDED:
            self.world.change_array(indexes=f"{self.world.array.indexes},{last + 1 + more}")

    @rule(index=st.integers(0, 12))
    def a_user_cancels_an_index(self, index):
        spans = indexes.union(indexes.read(self.world.array.cancelled), ((index, index + 1),))
        self.world.change_array(cancelled=indexes.written(spans))

    @rule(action=st.sampled_from(["AbortJob", "ResumeJob", "RestartJob"]))
    def a_user_gives_an_order(self, action):
        self.world.reconcile()
        before = self.world.job.status
        self.world.order(action)
        self.world.reconcile()
        after = self.world.job.status
        if action == "RestartJob" and after.version > before.version and after.state.phase not in ENDED:
            self.world.succeeded, self.world.failures = set(), {}

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds):
        self.world.now += seconds

    @invariant()
    def states_are_of_indexes_and_disjoint(self):
        if not hasattr(self, "world"):
            return
        seen = self.world.progress()
        spans = (seen.completed, seen.failed, seen.cancelled)
        assert sum(map(seen.count, spans)) == seen.count(seen.ended)
        assert not any(indexes.has(seen.ended, index) for index in seen.failures)
        assert self.world.job.status.failed_pods <= self.world.all_failures

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.reconcile()
        if world.job.status.state.phase in (JobPhase.ABORTED, JobPhase.ABORTING):
            for name in world.going():
                world.vanish(name)
            world.reconcile()
            world.order("ResumeJob")
        for _ in range(200):
            world.reconcile()
            world.admit()
            for name in world.going():
                world.vanish(name)
            for name, pod in list(world.pods.items()):
                if pod.status.phase in (PodPhase.PENDING, PodPhase.RUNNING) and not pod.metadata.is_terminating:
                    world.end(name, PodPhase.SUCCEEDED)
            world.now += 400
            if world.job.status.state.phase in ENDED and not world.going():
                break
        else:
            raise AssertionError(f"no end: {world.trace} {world.job.status}")
        world.reconcile()
        status, seen = world.job.status, world.progress()
        if not world.by_strangers:
            assert status.failed_pods == world.all_failures
        if status.state.phase is JobPhase.COMPLETED:
            assert seen.left == 0
            assert seen.failed == () or world.array.max_failures is not None
        assert status.succeeded == seen.count(seen.completed)
        assert status.failed == seen.count(seen.failed)
        if not world.array.keep_pods and status.state.phase is JobPhase.COMPLETED:
            assert not [pod for pod in world.pods.values() if pod.status.phase is PodPhase.SUCCEEDED]


TestArray = ArrayMachine.TestCase
TestArray.settings = settings(max_examples=examples(200), stateful_step_count=40, suppress_health_check=list(HealthCheck))
