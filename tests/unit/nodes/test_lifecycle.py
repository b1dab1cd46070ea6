"""Lives of pods in virtual time, with simulated containers: what is written when."""

import heapq
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.resources.backoff import Backoff
from pyroclast_standalone.nodes import statuses
from pyroclast_standalone.nodes.injections import of_pod
from pyroclast_standalone.nodes.lifecycle import advance, resumed
from pyroclast_standalone.nodes.lives import AskProbe, Execution, Kill, Phase, ProbeResult, Start, Terminate, born
from pyroclast_standalone.nodes.records import Pod
from pyroclast_standalone.nodes.shell import simulate
from pyroclast_standalone.times import rfc3339
from tests.counts import examples

EPOCH = 1_700_000_000.0
BACKOFF = Backoff(10, 300)


def container(script, name="c", **more):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def pod(*containers, annotations=None, deleted_at=None, **spec):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    if deleted_at is not None:
        metadata |= {"deletionTimestamp": rfc3339(EPOCH + deleted_at), "deletionGracePeriodSeconds": 30}
    body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": list(containers), **spec}}
    return msgspec.convert(body, Pod)


@dataclass
class World:
    """Runs one pod against a clock of its own; `history` is every status that would be written, with its time."""

    pod: Pod
    now: float = EPOCH
    history: list = field(default_factory=list)
    effects: list = field(default_factory=list)
    changes: list = field(default_factory=list)
    life: object = None

    def __post_init__(self):
        self.life = self.life or born(self.pod, "10.0.0.1", self.now)

    def at(self, seconds, changed):
        """From then on the pod is `changed`."""
        heapq.heappush(self.changes, (EPOCH + seconds, len(self.changes), changed))
        return self

    def run(self, until=100_000.0):
        while True:
            while self.changes and self.changes[0][0] <= self.now:
                self.pod = heapq.heappop(self.changes)[2]
            self._settle()
            wakes = [w for w in (self.life.wake_at, self.changes[0][0] if self.changes else None) if w is not None]
            if not wakes or min(wakes) > EPOCH + until:
                return self
            self.now = max(min(wakes), self.now)

    def _settle(self):
        injection = of_pod(self.pod.metadata.annotations)
        for _ in range(50):
            effects = advance(self.pod, self.life, self.now, injection, BACKOFF)
            if not effects:
                break
            for effect in effects:
                self._apply(effect, injection)
        else:
            raise AssertionError("does not settle")
        status = statuses.pod_status(self.pod, self.life, injection, host_ip="1.1.1.1", now=self.now)
        if not self.history or self.history[-1][1] != status:
            self.history.append((self.now - EPOCH, status))

    def _apply(self, effect, injection):
        self.effects.append((self.now - EPOCH, effect))
        one = self.life.container(effect.container)
        run = simulate([*one.spec.command, *one.spec.args], {})
        match effect:
            case Start():
                one.execution = Execution(self.now, None if run.seconds is None else self.now + run.seconds, run.exit_code)
            case Terminate():
                if run.stop is not None:
                    one.execution.ends_at, one.execution.exit_code = self.now + run.stop.seconds, run.stop.exit_code
            case Kill() if one.execution is not None:  # of an injected end nothing is left to end here
                one.execution.ends_at, one.execution.exit_code = self.now, 137
            case AskProbe(kind=kind):
                one.probes[kind].take(ProbeResult(ok=injection.fail_probe != kind, message="no", is_constant=True), self.now)

    @property
    def phases(self):
        found = []
        for at, status in self.history:
            if not found or found[-1][1] != status["phase"]:
                found.append((at, status["phase"]))
        return found

    @property
    def state(self):
        return self.history[-1][1]["containerStatuses"][0]

    def starts(self, name="c"):
        return [at for at, effect in self.effects if effect == Start(name)]

    def condition(self, kind):
        return next(c for c in self.history[-1][1]["conditions"] if c["type"] == kind)


@pytest.mark.parametrize(
    ("script", "policy", "want"),
    [
        pytest.param("sleep 5", "Never", [(0, "Running"), (5, "Succeeded")], id="succeeds"),
        pytest.param("sleep 5; exit 2", "Never", [(0, "Running"), (5, "Failed")], id="fails"),
        pytest.param("sleep 5", "OnFailure", [(0, "Running"), (5, "Succeeded")], id="on-failure-succeeds"),
        pytest.param("sleep infinity", "Always", [(0, "Running")], id="goes-on"),
    ],
)
def test_pod_status_is_written_once_for_each_phase(script, policy, want):
    world = World(pod(container(script), restartPolicy=policy)).run()
    assert world.phases == want
    assert len(world.history) == len(want)


def test_running_pod_has_addresses_start_time_and_true_conditions():
    world = World(pod(container("sleep 9"))).run(until=1)
    status = world.history[0][1]
    assert status["podIP"] == "10.0.0.1"
    assert status["podIPs"] == [{"ip": "10.0.0.1"}]
    assert (status["hostIP"], status["startTime"]) == ("1.1.1.1", rfc3339(EPOCH))
    assert {c["type"]: c["status"] for c in status["conditions"]} == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"], "True"
    )
    assert world.state["state"] == {"running": {"startedAt": rfc3339(EPOCH)}}
    assert world.state["ready"]
    assert world.state["started"]


def test_pod_scheduled_condition_is_not_written_again_for_a_bound_pod():
    said = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
    bound = msgspec.convert(msgspec.to_builtins(pod(container("sleep 9"))) | said, Pod)
    status = World(bound).run(until=1).history[0][1]
    assert "PodScheduled" not in {condition["type"] for condition in status["conditions"]}


def test_finished_pod_reports_exit_code_and_times():
    world = World(pod(container("sleep 3; exit 2"))).run()
    want = {"exitCode": 2, "reason": "Error", "startedAt": rfc3339(EPOCH), "finishedAt": rfc3339(EPOCH + 3)}
    assert {k: world.state["state"]["terminated"][k] for k in want} == want
    assert world.condition("Ready")["reason"] == "PodFailed"


def test_restarts_back_off():
    world = World(pod(container("sleep 1; exit 1"), restartPolicy="OnFailure")).run(until=100)
    assert world.starts() == [0, 1, 12, 33, 74]
    waiting = [s["containerStatuses"][0] for _, s in world.history if "waiting" in s["containerStatuses"][0]["state"]]
    assert {s["state"]["waiting"]["reason"] for s in waiting} == {"CrashLoopBackOff"}
    assert waiting[0]["lastState"]["terminated"]["exitCode"] == 1
    assert world.phases == [(0, "Running")]
    assert world.state["restartCount"] == 4


def test_restart_backoff_is_reset_after_a_long_run():
    world = World(pod(container("sleep 700; exit 1"), restartPolicy="Always")).run(until=3000)
    assert world.starts() == [0, 700, 1400, 2100, 2800]


def test_init_containers_run_in_order():
    world = World(pod(container("sleep 1"), initContainers=[container("sleep 2", "a"), container("sleep 3", "b")])).run()
    assert [(at, effect.container) for at, effect in world.effects if isinstance(effect, Start)] == [(0, "a"), (2, "b"), (5, "c")]
    assert world.phases == [(0, "Pending"), (5, "Running"), (6, "Succeeded")]


def test_a_failed_init_container_fails_the_pod():
    world = World(pod(container("sleep 1"), initContainers=[container("exit 1", "a")])).run()
    assert world.phases == [(0, "Failed")]
    assert not world.starts()


def test_sidecars_run_as_long_as_the_pod():
    world = World(pod(container("sleep 4"), initContainers=[container("sleep infinity", "s", restartPolicy="Always")])).run()
    assert world.starts("s") == world.starts("c") == [0]
    assert world.phases[-1] == (4, "Succeeded")
    assert world.history[-1][1]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_deleted_pod_is_removed_only_after_its_containers_end():
    world = World(pod(container("sleep 100"))).at(5, pod(container("sleep 100"), deleted_at=35)).run()
    assert world.phases == [(0, "Running"), (5, "Failed")]
    assert world.state["state"]["terminated"]["exitCode"] == 143
    assert world.life.may_be_deleted


def test_container_ignoring_sigterm_is_killed_after_the_grace_period():
    deaf = container("trap '' TERM; sleep 100")
    world = World(pod(deaf)).at(5, pod(deaf, deleted_at=35)).run()
    assert world.phases[-1] == (35, "Failed")
    assert world.state["state"]["terminated"]["exitCode"] == 137


def test_a_container_that_ends_well_on_sigterm_succeeds():
    polite = container("trap 'sleep 2; exit 0' TERM; sleep 100")
    world = World(pod(polite)).at(5, pod(polite, deleted_at=35)).run()
    assert world.phases[-1] == (7, "Succeeded")


def test_pod_fails_after_its_active_deadline():
    world = World(pod(container("sleep 100"), activeDeadlineSeconds=8)).run()
    assert world.phases[-1] == (8, "Failed")
    assert world.history[-1][1]["reason"] == "DeadlineExceeded"


def test_readiness_waits_for_its_probe():
    probed = container("sleep 100", readinessProbe={"exec": {"command": ["true"]}, "initialDelaySeconds": 7})
    world = World(pod(probed)).run(until=50)
    ready = [(at, s["containerStatuses"][0]["ready"]) for at, s in world.history]
    assert ready == [(0, False), (7, True)]


def test_readiness_probe_starts_after_the_startup_probe_succeeds():
    probe = {"tcpSocket": {"port": 1}, "initialDelaySeconds": 3}
    world = World(pod(container("sleep 100", startupProbe=probe, readinessProbe=probe))).run(until=50)
    started = [(at, s["containerStatuses"][0]["started"], s["containerStatuses"][0]["ready"]) for at, s in world.history]
    assert started == [(0, False, False), (3, True, False), (6, True, True)]


def test_container_is_restarted_after_failed_liveness_probes():
    probed = container("sleep 100", livenessProbe={"exec": {"command": ["x"]}, "periodSeconds": 2, "failureThreshold": 3})
    world = World(pod(probed, annotations={"nodes.pyroclast.dev/fail-probe": "liveness"}, restartPolicy="Always")).run(until=5)
    assert world.starts() == [0, 4]


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"fail-after": "3s"}, [(0, "Running"), (3, "Failed")], id="fail-after"),
        pytest.param({"run-for": "500ms"}, [(0, "Running"), (0.5, "Succeeded")], id="run-for"),
        pytest.param({"run-for": "20s", "exit-code": "9"}, [(0, "Running"), (20, "Failed")], id="run-for-with-code"),
        pytest.param({"exit-code": "4"}, [(0, "Running"), (10, "Failed")], id="exit-code"),
        pytest.param({"start-delay": "6s"}, [(0, "Pending"), (6, "Running"), (16, "Succeeded")], id="start-delay"),
        pytest.param({"evict-after": "2s"}, [(0, "Running"), (2, "Failed")], id="evicted"),
        pytest.param({"image-pull": "fail"}, [(0, "Pending")], id="image-pull"),
        pytest.param({"never-ready": "true"}, [(0, "Running"), (10, "Succeeded")], id="never-ready"),
        pytest.param({"fail-after": "soon"}, [(0, "Running"), (10, "Succeeded")], id="unreadable-counts-as-absent"),
    ],
)
def test_fault_annotations_change_the_phases_of_a_pod(annotations, want):
    asked = {f"nodes.pyroclast.dev/{key}": value for key, value in annotations.items()}
    assert World(pod(container("sleep 10"), annotations=asked)).run().phases == want


def test_fail_times_limits_the_number_of_injected_failures():
    asked = {"nodes.pyroclast.dev/fail-after": "1s", "nodes.pyroclast.dev/fail-times": "2"}
    world = World(pod(container("sleep 5"), annotations=asked, restartPolicy="OnFailure")).run()
    assert world.phases == [(0, "Running"), (17, "Succeeded")]
    assert world.state["restartCount"] == 2


def test_failed_image_pull_is_reported_as_the_waiting_reason():
    world = World(pod(container("sleep 1"), annotations={"nodes.pyroclast.dev/image-pull": "fail"})).run()
    reasons = [s["containerStatuses"][0]["state"]["waiting"]["reason"] for _, s in world.history]
    assert reasons == ["ErrImagePull", "ImagePullBackOff"]


def test_an_injected_failure_takes_effect_while_running():
    failing = pod(
        container("sleep 100"), annotations={"nodes.pyroclast.dev/fail-after": "0s", "nodes.pyroclast.dev/exit-code": "8"}
    )
    world = World(pod(container("sleep 100"))).at(4, failing).run()
    assert world.phases == [(0, "Running"), (4, "Failed")]
    assert world.state["state"]["terminated"]["exitCode"] == 8


def test_stuck_terminating_annotation_prevents_deletion_of_a_pod():
    asked = {"nodes.pyroclast.dev/stuck-terminating": "true"}
    body = pod(container("sleep 9"), annotations=asked, deleted_at=3)
    world = World(body).run()
    assert not world.life.may_be_deleted


@pytest.mark.parametrize("until", [0.5, 1.5, 2.5, 13, 30])
def test_pod_resumes_from_its_status_after_a_restart_of_the_node_service(until):
    """What was written is enough to go on from: the rest of the history is the same, to the second."""
    script = "sleep 2; exit 1"
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"restartPolicy": "OnFailure"}}
    whole = World(pod(container(script), restartPolicy="OnFailure")).run(until=200)
    first = World(pod(container(script), restartPolicy="OnFailure")).run(until=until)
    body["spec"]["containers"] = [container(script)]
    again = msgspec.convert(body | {"status": _stripped(first.history[-1][1])}, Pod)
    life, running = resumed(again, EPOCH + until, BACKOFF)
    for name, started_at in running.items():
        life.container(name).execution = Execution(started_at, started_at + 2, 1)
    second = World(again, now=EPOCH + until, life=life)
    before = statuses.pod_status(again, life, of_pod({}), host_ip="1.1.1.1", now=EPOCH + until)
    assert _stripped(before) == _stripped(first.history[-1][1])
    second.run(until=200)
    assert first.starts() + second.starts() == whole.starts()
    assert [(at, _stripped(status)) for at, status in [*first.history, *second.history[1:]]] == [
        (at, _stripped(status)) for at, status in whole.history
    ]
    assert life.phase is Phase.RUNNING


def _stripped(status):
    conditions = [{k: v for k, v in c.items() if v is not None} for c in status["conditions"]]
    return {**status, "conditions": conditions}


SCRIPTS = st.sampled_from(
    ["sleep 1", "sleep 3; exit 2", "exit 1", "sleep infinity", "trap '' TERM; sleep 9", "sleep 700; exit 1"]
)
ASKED = st.dictionaries(
    st.sampled_from(["run-for", "fail-after", "start-delay", "evict-after"]), st.sampled_from(["0s", "2s", "15s"]), max_size=2
)
ORDER = [Phase.PENDING, Phase.RUNNING, Phase.FAILED, Phase.SUCCEEDED]


@settings(max_examples=examples(150))
@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    mains=st.lists(SCRIPTS, min_size=1, max_size=3),
    inits=st.lists(st.tuples(SCRIPTS, st.booleans()), max_size=2),
    asked=ASKED,
    deleted_at=st.sampled_from([None, 0, 2, 20]),
    deadline=st.sampled_from([None, 5]),
)
def test_pod_phases_and_restart_counts_never_go_back(policy, mains, inits, asked, deleted_at, deadline):
    spec = {
        "restartPolicy": policy,
        "initContainers": [
            container(script, f"i{n}", **({"restartPolicy": "Always"} if sidecar else {}))
            for n, (script, sidecar) in enumerate(inits)
        ],
        **({"activeDeadlineSeconds": deadline} if deadline is not None else {}),
    }
    annotations = {f"nodes.pyroclast.dev/{key}": value for key, value in asked.items()}
    containers = [container(script, f"c{n}") for n, script in enumerate(mains)]
    world = World(pod(*containers, annotations=annotations, **spec))
    if deleted_at is not None:
        world.at(deleted_at, pod(*containers, annotations=annotations, deleted_at=deleted_at + 10, **spec))
    world.run(until=2_000)
    phases = [ORDER.index(Phase(phase)) for _, phase in world.phases]
    assert phases == sorted(phases)
    assert sum(Phase(phase).is_over for _, phase in world.phases) <= 1
    for index in range(len(mains)):
        counts = [s["containerStatuses"][index]["restartCount"] for _, s in world.history if "containerStatuses" in s]
        assert counts == sorted(counts)
    if deleted_at is not None:
        assert world.life.may_be_deleted
        assert world.now <= EPOCH + deleted_at + 10
    if world.life.phase.is_over:
        assert not any(one.is_alive for one in world.life.containers)
