"""The real controller under everything at once, in virtual time: two replicas that hand shards to each other and are killed,
answers that get lost, watches that break, nodes, a scheduler, users and strangers.

What must hold: what a policy says is done once for each thing that happened, and never before its time; at rest nothing waits
for an answer, and the cluster is as each Job's phase says.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter, defaultdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, JOBS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, ServerError
from pyroclast.kube.http.client import PatchKind
from tests.counts import examples

from .cluster import NS, authorized, task
from .memory_cluster import MemoryCluster, Replica, VirtualLoop, key_of

ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "ResumeJob")
TIMEOUT = 30
POLICIES = st.lists(
    st.builds(
        lambda event, action, timeout: {"event": event, "action": action, **({"timeout": timeout} if timeout else {})},
        st.sampled_from(["PodFailed", "PodEvicted", "PodPending", "TaskCompleted"]),
        st.sampled_from(ACTIONS),
        st.sampled_from([None, f"{TIMEOUT}s"]),
    ),
    max_size=3,
)
JOB_NAMES = ("j0", "j1", "j2")
FAULTS = (
    lambda: ConnectionFailed("reset"),
    lambda: ServerError(500, "InternalError", "etcd is away"),
    lambda: Conflict(409, "Conflict", "somebody was faster"),
)
LATE = ("PodPending", None)
"""Every pod begins as pending, so a policy for that without a timeout is passed over."""
OVER = ("Aborted", "Completed", "Terminated", "Failed")


class ControllerMachine(RuleBasedStateMachine):
    @initialize(policies=st.tuples(POLICIES, POLICIES, POLICIES), retries=st.integers(1, 4), depends=st.booleans())
    def start(self, policies, retries, depends):
        self.loop = VirtualLoop()
        self.cluster = MemoryCluster(shards=2)
        self.server = self.cluster.server
        self.happened: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.answered: Counter[tuple[str, str]] = Counter()
        self.seen: set[tuple[Any, ...]] = set()
        self.server.on_write = self._written
        self.run(self.cluster.start())
        self.replicas = [self.cluster.replica, Replica(self.server, shards=2)]
        self.run(self.replicas[1].start())
        self.leads = [0, 0]
        self.policies = dict(zip(JOB_NAMES, policies, strict=True))
        for name in JOB_NAMES:
            second = task("b", 2, **({"dependsOn": {"name": ["a"]}} if depends else {}))
            spec = {"policies": self.policies[name], "maxRetry": retries}
            self.in_loop(lambda name=name, second=second, spec=spec: self.cluster.job(name, task("a", 2), second, **spec))

    # the world

    def run(self, work) -> Any:
        return self.loop.run_until_complete(work)

    def in_loop(self, work) -> None:
        async def do():
            work()

        self.run(do())

    def _written(self, type_: str, kind: str, item: dict[str, Any]) -> None:
        """Note what happens to pods, and hold what is done about it against that."""
        name = item["metadata"]["name"]
        if kind == JOBS.qualified and type_ == "MODIFIED":
            self._check_answer(name, (item.get("status") or {}).get("state") or {})
        if kind != PODS.qualified:
            return
        if type_ == "ADDED":
            self.happened["PodPending", name].append(self.loop.time())
        if type_ == "DELETED":
            self.happened["PodEvicted", name].append(self.loop.time())
        phase = item["status"]["phase"]
        if phase in ("Failed", "Succeeded") and (phase, item["metadata"]["uid"]) not in self.seen:
            self.seen.add((phase, item["metadata"]["uid"]))
            event = "PodFailed" if phase == "Failed" else "TaskCompleted"
            self.happened[event, name].append(self.loop.time())

    def _check_answer(self, job: str, state: dict[str, Any]) -> None:
        """An action of a policy is carried out for something that happened, once, and not before its time."""
        found = re.match(r"pod (\S+) of task .*: (\w+) by policy$", state.get("message", ""))
        entered = (job, state.get("phase"), state.get("lastTransitionTime"), state.get("message"))
        if not found or state["phase"] not in ("Restarting", "Aborting", "Terminating", "Completing") or entered in self.seen:
            return
        self.seen.add(entered)
        event, pod = state["reason"], found[1]
        policy = next(
            policy for policy in self.policies[job] if policy["event"] == event and (event, policy.get("timeout")) != LATE
        )
        happened, delay = self.happened[event, pod], TIMEOUT if "timeout" in policy else 0
        self.answered[event, pod] += 1
        assert self.answered[event, pod] <= len(happened), f"{entered} was done twice"
        assert min(happened) + delay - 1 <= self.loop.time(), f"{entered} was done too early"

    @rule(seconds=st.sampled_from([0.005, 0.1, 1.0, 7.0, 40.0]))
    def time_passes(self, seconds):
        self.run(asyncio.sleep(seconds))

    @rule()
    def scheduler_lets_the_gangs_in(self):
        self.in_loop(self.cluster.admit)

    @rule()
    def the_gangs_start(self):
        self.run(asyncio.sleep(1))
        self.in_loop(self.cluster.admit)
        self.run(asyncio.sleep(1))
        self.in_loop(self.cluster.run_pods)
        self.run(asyncio.sleep(3))

    @precondition(lambda self: self.cluster.pods())
    @rule(data=st.data(), phase=st.sampled_from(["Running", "Succeeded", "Failed"]), code=st.integers(1, 2))
    def node_moves_a_pod_on(self, data, phase, code):
        pod = data.draw(st.sampled_from(sorted(self.cluster.pods(), key=lambda pod: pod["metadata"]["name"])))
        if pod["status"]["phase"] in ("Pending", "Running"):
            self.in_loop(lambda: self.cluster.set_phase(pod, phase, code if phase == "Failed" else 0))

    @rule()
    def pods_that_go_are_gone(self):
        self.in_loop(self.cluster.drain)

    @precondition(lambda self: self.cluster.pods())
    @rule(data=st.data(), grace=st.sampled_from([0, None]))
    def a_stranger_deletes_a_pod(self, data, grace):
        pod = data.draw(st.sampled_from(sorted(self.cluster.pods(), key=lambda pod: pod["metadata"]["name"])))
        self.in_loop(lambda: self.server.delete(PODS, key_of(pod), grace=grace))

    @precondition(lambda self: self.cluster.pods())
    @rule(data=st.data())
    def a_stranger_takes_a_label_off(self, data):
        pod = data.draw(st.sampled_from(sorted(self.cluster.pods(), key=lambda pod: pod["metadata"]["name"])))
        patch = {"metadata": {"labels": {keys.JOB_NAME: None}}}
        self.in_loop(lambda: self.server.patch(PODS, key_of(pod), patch, PatchKind.MERGE))
        self.run(asyncio.sleep(3))  # what nobody ever saw again, nobody can put right

    @precondition(lambda self: self.server.of(POD_GROUPS))
    @rule(data=st.data())
    def a_stranger_deletes_a_podgroup(self, data):
        key = data.draw(st.sampled_from(sorted(self.server.of(POD_GROUPS), key=str)))
        self.in_loop(lambda: self.server.delete(POD_GROUPS, key))

    @rule(name=st.sampled_from(JOB_NAMES), action=st.sampled_from(ACTIONS))
    def a_user_gives_an_order(self, name, action):
        job = self.server.of(JOBS)[Key(NS, name)]
        target = {"apiVersion": JOBS.api_version, "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        self.in_loop(lambda: self.server.create(COMMANDS, authorized(action, target, generateName="c-")))

    @rule(name=st.sampled_from(JOB_NAMES), a=st.integers(0, 3), b=st.integers(0, 3))
    def a_user_scales(self, name, a, b):
        tasks = [dict(each) for each in self.server.of(JOBS)[Key(NS, name)]["spec"]["tasks"]]
        for each, size in zip(tasks, (a, b), strict=True):
            each.update(replicas=size, minAvailable=size)
        spec = {"spec": {"tasks": tasks, "minAvailable": a + b}}
        self.in_loop(lambda: self.server.patch(JOBS, Key(NS, name), spec, PatchKind.MERGE))

    # what goes wrong

    @rule(shard=st.integers(0, 1))
    def a_shard_is_handed_over(self, shard):
        async def hand_over():
            await self.replicas[self.leads[shard]].give(shard)
            self.leads[shard] = 1 - self.leads[shard]
            self.replicas[self.leads[shard]].take(shard)

        self.run(hand_over())

    @rule(which=st.integers(0, 1))
    def a_replica_is_killed_and_started_again(self, which):
        async def kill():
            await self.replicas[which].kill()
            for shard in (0, 1):
                if self.leads[shard] == which:
                    self.leads[shard] = 1 - which
                    self.replicas[1 - which].take(shard)
            self.replicas[which] = Replica(self.server, shards=2)
            await self.replicas[which].start()

        self.run(kill())

    @rule(after=st.integers(0, 6), done=st.booleans(), what=st.sampled_from(FAULTS))
    def a_write_goes_wrong(self, after, done, what):
        left = [after]

        def fault(is_done):
            if is_done is not done:
                return None
            left[0] -= 1
            return what() if left[0] == -1 else None

        for replica in self.replicas:
            replica.client.fault = fault

    @rule()
    def watches_break(self):
        self.in_loop(self.server.cut_watches)

    # what must hold

    @invariant()
    def nothing_is_of_a_version_to_come(self):
        if not hasattr(self, "cluster"):
            return
        for name in JOB_NAMES:
            job = self.server.of(JOBS)[Key(NS, name)]
            status = job.get("status") or {}
            assert status.get("retryCount", 0) <= job["spec"]["maxRetry"]
            for pod in self.cluster.pods():
                if pod["metadata"]["annotations"][keys.JOB_NAME] == name:
                    assert int(pod["metadata"]["annotations"][keys.JOB_VERSION]) <= status.get("version", 0)

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        try:
            for replica in self.replicas:
                replica.client.fault = lambda _: None
            for _ in range(12):
                self.in_loop(self.cluster.admit)
                self.run(asyncio.sleep(4))
                self.in_loop(self.cluster.drain)
                self.in_loop(self.cluster.run_pods)
                self.run(asyncio.sleep(TIMEOUT))
            self.in_loop(self.check_rest)
        finally:
            with contextlib.closing(self.loop):
                for replica in self.replicas:
                    self.run(replica.kill())

    def check_rest(self):
        for name in JOB_NAMES:
            job = self.server.of(JOBS)[Key(NS, name)]
            status = job["status"]
            mine = [pod for pod in self.cluster.pods() if pod["metadata"]["annotations"][keys.JOB_NAME] == name]
            phases = Counter(pod["status"]["phase"] for pod in mine)
            counted = {phase: status.get(phase.lower(), 0) for phase in ("Pending", "Running", "Succeeded", "Failed")}
            assert counted == {phase: phases[phase] for phase in counted}, name
            assert all(keys.JOB_NAME in pod["metadata"]["labels"] for pod in mine)
            groups = [key for key in self.server.of(POD_GROUPS) if key.name.startswith(f"{name}-")]
            if status["state"]["phase"] in OVER:
                assert groups == []
                assert phases["Running"] == phases["Pending"] == 0
            else:
                assert status["state"]["phase"] in ("Pending", "Running"), status["state"]
                wanted = {f"{name}-{each['name']}-{i}" for each in job["spec"]["tasks"] for i in range(each["replicas"])}
                names = {pod["metadata"]["name"] for pod in mine}
                assert names <= wanted
                assert all("-b-" in missing for missing in wanted - names)  # what depends may wait for what failed
                assert len(groups) == 1
                assert status["observedGeneration"] == job["metadata"]["generation"]
                assert not status.get("delayedActions")
                of_failure = next((policy for policy in self.policies[name] if policy["event"] == "PodFailed"), None)
                assert of_failure is None or of_failure["action"] == "ResumeJob" or not phases["Failed"], "nobody answered"
        assert not self.server.of(COMMANDS)


TestController = ControllerMachine.TestCase
TestController.settings = settings(max_examples=examples(15), stateful_step_count=25, suppress_health_check=list(HealthCheck))
