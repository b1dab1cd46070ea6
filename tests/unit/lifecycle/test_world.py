"""A Job under everything at once: nodes, a scheduler, users, strangers, and a controller that is killed at any moment."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.job.job_events import missed
from pyroclast.lifecycle.job.phase_transitions import MOVES, PhaseWork, is_ending
from pyroclast.lifecycle.job.status import count
from tests.counts import examples

from .builders import job, task
from .world import Crash, World

ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob")
POLICIES = st.lists(
    st.builds(
        lambda event, action, timeout: {"event": event, "action": action, **({"timeout": timeout} if timeout else {})},
        st.sampled_from(["*", "PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "Unknown"]),
        st.sampled_from(ACTIONS),
        st.sampled_from([None, None, "30s"]),
    ),
    max_size=3,
)
AFTER = {"after": [{"job": "build"}]}
TIMES = st.sampled_from(
    [
        *({}, {}, {"maxRunTime": "45s"}, {"maxRunTime": "45s", "onTimeout": "Requeue"}, {"deadline": "150s"}),
        *(AFTER, {**AFTER, "afterPolicy": "Wait"}, {**AFTER, "suspend": True}, {"suspend": True, "maxRunTime": "45s"}),
    ]
)
"""What keeps the Job from its start, and what ends it."""
KILLED = {JobPhase.ABORTED, JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED}


class JobMachine(RuleBasedStateMachine):
    @initialize(policies=POLICIES, of_task=POLICIES, retries=st.integers(1, 9), depends=st.booleans(), times=TIMES)
    def start(self, policies, of_task, retries, depends, times):
        second = task("b", 2, **({"dependsOn": {"name": ["a"]}} if depends else {}))
        owner = job(task("a", 2, policies=of_task), second, phase=JobPhase.NEW, policies=policies, maxRetry=retries, **times)
        self.world = World(owner)

    @rule()
    def look(self):
        self.world.reconcile()

    @rule(after=st.integers(0, 4))
    def look_and_be_killed(self, after):
        self.world.steps_until_crash = after
        try:
            self.world.reconcile()
        except Crash:
            return
        finally:
            self.world.steps_until_crash = None

    @rule()
    def scheduler_lets_the_gang_in(self):
        self.world.admit()

    @rule()
    def the_gang_starts(self):
        self.world.reconcile()
        self.world.admit()
        self.world.reconcile()
        for name, pod in self.world.pods.items():
            if pod.status.phase is PodPhase.PENDING and not pod.metadata.is_terminating:
                self.world.set_phase(name, PodPhase.RUNNING)
        self.world.reconcile()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), phase=st.sampled_from([PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED]), code=st.integers(1, 2))
    def node_moves_a_pod_on(self, data, phase, code):
        name = data.draw(st.sampled_from(sorted(self.world.pods)))
        pod = self.world.pods[name]
        if pod.status.phase in (PodPhase.PENDING, PodPhase.RUNNING) and pod.metadata.uid not in self.world.lost:
            self.world.set_phase(name, phase, code)

    @precondition(lambda self: self.world.going())
    @rule(noticed=st.booleans())
    def pods_that_go_are_gone(self, noticed):
        for name in self.world.going():
            self.world.vanish(name, noticed=noticed)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_node_is_lost(self, data):
        name = data.draw(st.sampled_from(sorted(self.world.pods)))
        self.world.lost.add(self.world.pods[name].metadata.uid)

    @precondition(lambda self: self.world.lost)
    @rule()
    def lost_nodes_come_back(self):
        self.world.lost.clear()

    @precondition(lambda self: self.world.lost)
    @rule()
    def lost_pods_are_given_up(self):
        for name in [name for name, pod in self.world.pods.items() if pod.metadata.uid in self.world.lost]:
            if self.world.pods[name].metadata.is_terminating:
                self.world.vanish(name)

    @precondition(lambda self: any(pod.status.phase is PodPhase.FAILED for pod in self.world.pods.values()))
    @rule(data=st.data(), noticed=st.booleans())
    def somebody_deletes_a_failed_pod(self, data, noticed):
        failed = [name for name, pod in self.world.pods.items() if pod.status.phase is PodPhase.FAILED]
        self.world.vanish(data.draw(st.sampled_from(sorted(failed))), noticed=noticed)

    @rule(action=st.sampled_from(ACTIONS))
    def an_order_does_what_the_table_says_in_every_phase(self, action):
        """Also in phases that only last while pods do not go."""
        world = self.world
        world.reconcile()
        phase, since = world.job.status.state.phase, len(world.trace)
        world.order(action)
        world.reconcile()
        assert not world.orders
        to, cell = world.trace[since:], MOVES[phase][action]
        if world.job.spec.suspend or world.job.spec.max_run_time or world.job.spec.deadline:
            return  # these may lead on at once
        if cell.to is not None and cell.work is PhaseWork.RELEASE:
            assert to[:1] == [cell.to], f"{action} leads from {phase} to {to}"
        elif phase in (*KILLED, JobPhase.TERMINATING):
            assert set(to) <= {JobPhase.TERMINATED}

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), noticed=st.booleans())
    def a_stranger_deletes_a_pod(self, data, noticed):
        self.world.vanish(data.draw(st.sampled_from(sorted(self.world.pods))), noticed=noticed)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_stranger_asks_a_pod_to_go(self, data):
        pod = self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]
        if members.is_finished(pod):
            self.world.vanish(pod.metadata.name)  # the API server grants no grace to a pod that has ended
        elif not pod.metadata.is_terminating:
            self.world.change(pod, deletion_timestamp="2024-01-01T00:00:00Z")

    @rule()
    def a_stranger_deletes_the_podgroup(self):
        self.world.group = None

    @rule(action=st.sampled_from(ACTIONS))
    def a_user_gives_an_order(self, action):
        self.world.order(action)

    @rule(a=st.integers(0, 3), b=st.integers(0, 3))
    def a_user_scales(self, a, b):
        self.world.scale({"a": a, "b": b})

    @rule(suspended=st.booleans())
    def a_user_suspends_or_resumes(self, suspended):
        retries = self.world.job.status.retry_count
        self.world.suspend(suspended)
        if suspended and not self.world.orders and not self.world.memory.occurrences:
            self.world.reconcile()
            began = JobPhase.RESTARTING in self.world.trace
            assert began or self.world.job.status.retry_count == retries

    @rule(phase=st.sampled_from(["", "Running", "Completed", "Failed", None]))
    def an_earlier_job_moves_on(self, phase):
        world = self.world
        if world.earlier in ("Completed", "Failed") or (phase is None and world.earlier is None):
            phase = None  # it was deleted after its end
        if phase is None and world.earlier is not None:
            world.departed["b"] = world.earlier
        world.earlier = phase

    @rule(seconds=st.integers(1, 60))
    def time_passes(self, seconds):
        self.world.now += seconds

    @invariant()
    def nothing_is_of_a_version_to_come(self):
        if not hasattr(self, "world"):
            return
        status = self.world.job.status
        versions = [int(pod.metadata.annotations["volcano.sh/job-version"]) for pod in self.world.pods.values()]
        assert max(versions, default=0) <= status.version
        assert status.retry_count <= self.world.job.spec.max_retry

    @invariant()
    def a_controller_that_starts_misses_what_others_deleted_and_nothing_else(self):
        if not hasattr(self, "world") or is_ending(self.world.job.status.state.phase):
            return
        world = self.world
        places = {f"j-{each.name}-{i}" for each in world.job.spec.tasks for i in range(each.replicas)}
        found = {occurrence.pod for occurrence in missed(world.job, world.facts().pods, world.now)}
        assert not any(world.ended_by_controller[name] for name in found)
        assert world.evicted & places - set(world.pods) <= found

    def teardown(self):
        """When all comes to rest, the world is as the Job's phase says."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.lost.clear()
        quiet = 0
        for _ in range(60):
            before = (world.job, dict(world.pods), world.group, world.memory)
            world.reconcile()
            world.admit()
            for name in world.going():
                world.vanish(name)
            for name, pod in world.pods.items():
                if pod.status.phase is PodPhase.PENDING:
                    world.set_phase(name, PodPhase.RUNNING)
            world.now += 400  # no pause between restarts is longer
            quiet = quiet + 1 if before == (world.job, world.pods, world.group, world.memory) else 0
            if quiet == 2:  # also after a time is over
                break
        else:
            raise AssertionError(f"no rest: {world.trace}")
        self._check_rest()

    def _check_rest(self):
        world, status = self.world, self.world.job.status
        counts = count(world.facts().pods)
        assert (status.pending, status.running, status.succeeded, status.failed, status.terminating) == (
            counts.pending,
            counts.running,
            counts.succeeded,
            counts.failed,
            counts.terminating,
        )
        phase = status.state.phase
        if phase in KILLED:
            assert world.group is None
            assert not world.plugin_objects
            assert not counts.has_living
        else:
            assert phase in (JobPhase.PENDING, JobPhase.RUNNING)
            assert status.observed_generation == world.job.metadata.generation
            if world.is_held():
                assert phase is JobPhase.PENDING
                assert world.group is None
                assert not counts.has_living
                assert status.waiting.code in ("Suspended", "WaitsForJob")
                assert status.start_time is None
                return
            assert not world.job.spec.deadline
            assert not (world.job.spec.max_run_time and phase is JobPhase.RUNNING)
            wanted = {f"j-{each.name}-{i}" for each in world.job.spec.tasks for i in range(each.replicas)}
            gone = {f"j-{task}-{index}" for task, indexes in world.facts().pods.gone.items() for index in indexes}
            missing = wanted - set(world.pods) - gone
            assert set(world.pods) <= wanted
            assert all(name.startswith("j-b") for name in missing)  # what depends may have to wait for what failed
            assert counts.has_living or not missing  # a Job that waits for what can never come ends
            assert world.group is not None
            assert world.plugin_objects


TestJob = JobMachine.TestCase
TestJob.settings = settings(max_examples=examples(200), stateful_step_count=40, suppress_health_check=list(HealthCheck))
