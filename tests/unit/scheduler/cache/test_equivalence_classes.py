"""Jobs that differ in nothing but name and age get the same, the oldest first: one of them is asked for all that rest."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.retries import WaitQueue
from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes
from pyroclast_scheduler.model.triggers import Room, UnschedulableJob
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from tests.scenarios import objects
from tests.scenarios.taking import take, take_statuses
from tests.unit.scheduler.deciding import committed, configured, decided, one_tier

FILLING = ("priority", "gang", "predicates", "overcommit", "proportion", "nodeorder")


class World:
    """Jobs of one queue and a node, under some plugins and actions."""

    def __init__(self, actions="enqueue, allocate, backfill", plugins=FILLING):
        self.configuration = one_tier(plugins, actions)
        self.cache = Cache()
        self.queue()
        self.nodes, self.pods = {}, {}

    @classmethod
    def preempting(cls, cpu, *plugins):
        """A node of so many cpus, a priority of 1, and sessions that preempt."""
        world = cls("allocate, preempt", ("priority", "gang", "predicates", *plugins))
        world.cache.priority_changed(None, objects.priority_class(1))
        world.node(cpu)
        return world

    def needs(self, name, count):
        self.cache.group_changed(self.cache.groups.written(f"t/{name}"), objects.pod_group([name, "q", count]))

    def waiting(self, *numbers, **options):
        """Equal jobs that wait, the last one being the oldest."""
        for i in numbers:
            self.job(f"j{i}", 1, age=i, **options)

    def queue(self, **options):
        self.cache.queue_changed(None if not self.cache.queues else self.cache.queues["q"].record, objects.queue(["q", options]))

    def node(self, cpu, name="n", **options):
        new = objects.node([name, cpu, "64Gi", {"pods": 110, "labels": {"kubernetes.io/hostname": name}, **options}])
        self.cache.node_changed(self.nodes.get(name), new)
        self.nodes[name] = new

    def job(self, name, cpu, *, size=1, where="-", group=None, labels=None, annotations=None, age=0, **options):
        made = msgspec.to_builtins(objects.pod_group([name, "q", size, group or {}]))
        made["metadata"] |= {"annotations": annotations or {}, "creationTimestamp": f"2026-01-01T00:00:{59 - age:02}Z"}
        self.cache.group_changed(None, msgspec.convert(made, records.PodGroup))
        for i in range(size):
            options["labels"] = {"volcano.sh/job-name": name, **(labels or {})}
            pod = self.pods[f"{name}-{i}"] = objects.pod([f"{name}-{i}", name, where, cpu, "1Gi" if cpu else 0, dict(options)])
            self.cache.pod_changed(None, pod)

    def ends(self, *names):
        for name in names:
            self.cache.pod_changed(self.pods.pop(name), None)

    def session(self):
        """What the next session looks at and what it binds, by name."""
        outcome, binds = decided(self.cache, self.configuration)
        for uid, node in binds.items():
            assert self.cache.pods.assume(uid, node) is None
        take(self.cache, outcome)
        return {key.removeprefix("t/") for key in outcome.seen}, {uid.removeprefix("t-") for uid in binds}

    def evicts(self):
        """What the next session promises to whom, and whom it evicts."""
        outcome, commits = committed(self.cache, self.configuration)
        evicted = {each.task.name for commit in commits for each in commit.evictions}
        return {uid.removeprefix("t-") for uid in outcome.promised}, evicted

    def settle(self):
        for _ in range(4):
            self.session()

    def texts(self):
        """What the five jobs say of why they wait."""
        return [self.cache.groups.current(f"t/j{i}").status.conditions[-1].message for i in range(5)]

    def class_of(self, name):
        return self.cache.snapshot().all_jobs[f"t/{name}"].equivalence_class


def minding(job):
    """A pod that keeps away from those of a job by its name."""
    body = msgspec.to_builtins(objects.pod(["s", "", "n", 0, 0]))
    term = {"labelSelector": {"matchLabels": {"volcano.sh/job-name": job}}, "topologyKey": "kubernetes.io/hostname"}
    body["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return msgspec.convert(body, records.Pod)


def full(jobs=5, **options):
    """A node full of pods of one cpu each, and jobs of one kind that wait, the last one being the oldest."""
    world = World(**options)
    world.node(8)
    for i in range(8):
        world.job(f"runs{i}", 1, where="n", phase="Running")
    world.waiting(*range(jobs))
    world.settle()
    assert world.session() == (set(), set())
    return world


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate, preempt, reclaim", "allocate, gangpreempt"])
def test_freed_room_goes_to_the_oldest_equal_job_and_one_more_job_is_examined(actions):
    world = full(actions=actions)
    world.ends("runs0-0")
    seen, bound = world.session()
    assert bound == {"j4-0"}
    assert seen & {"j0", "j1", "j2", "j3", "j4"} == {"j4", "j3"}
    world.settle()
    world.ends("runs1-0", "runs2-0")
    assert world.session()[1] == {"j3-0", "j2-0"}


def test_all_equal_jobs_that_fit_are_bound_in_one_session():
    world = full(jobs=20)
    world.node(20)
    assert world.session()[1] == {f"j{i}-0" for i in range(8, 20)}


def test_older_and_higher_priority_jobs_are_bound_before_the_second_of_equal_jobs():
    world = full()
    world.job("k", 1, age=30, group={"min": 1}, labels={"a": "b"})
    world.cache.priority_changed(None, objects.priority_class(1))
    world.job("high", 1, group={"class": 1})
    world.settle()
    world.ends("runs0-0", "runs1-0", "runs2-0")
    assert world.session()[1] == {"high-0", "k-0", "j4-0"}


def test_only_the_oldest_of_equal_jobs_in_a_full_queue_is_examined():
    world = World()
    world.queue(capability={"cpu": 4})
    world.node(64)
    world.job("runs", 4, where="n", phase="Running")
    for i in range(5):
        world.job(f"j{i}", 2, age=i)
    world.settle()
    world.node(32)
    assert world.session() == ({"j4"}, set())
    world.queue(capability={"cpu": 8})
    assert world.session()[1] == {"j4-0", "j3-0"}


def test_only_the_oldest_of_equal_pending_jobs_is_examined_for_enqueue():
    world = World()
    world.node(8)
    for i in range(5):
        world.job(f"j{i}", 20, age=i, group={"phase": "Pending", "minRes": {"cpu": 20}})
    world.settle()
    world.node(9)
    assert world.session() == ({"j4"}, set())
    world.node(40)
    world.session()
    phases = {name: world.cache.groups.current(f"t/{name}").status.phase for name in ("j4", "j3", "j2")}
    assert {name for name, phase in phases.items() if phase == "Inqueue"} == {"j4", "j3"}


def test_room_released_by_the_oldest_job_is_given_to_the_next_equal_job():
    world = full()
    world.ends("runs0-0")
    assert world.cache.snapshot().candidates  # this session fails, and the next one examines the same jobs
    assert world.session()[1] == {"j4-0"}
    world.ends("j4-0")
    for _ in range(3):
        world.session()
    assert world.cache.tasks["t-j3-0"].node == "n"
    world.ends("runs1-0", "j2-0")  # the oldest that waits
    assert world.session()[1] == {"j1-0"}


def test_a_changed_waiting_reason_reaches_the_status_of_all_equal_jobs():
    world = full()
    assert all("QueueFull" in text for text in world.texts())
    world.node(8, taints=["k=v:NoSchedule"])
    world.ends("runs0-0")
    world.settle()
    assert all("NoNodeAllowed" in text for text in world.texts())


HYPER_NODE = records.HyperNode(metadata=records.Meta(name="h", uid="h", resource_version="1"))


@pytest.mark.parametrize(
    "change",
    [lambda world: world.queue(weight=3), lambda world: world.cache.object_changed(None, HYPER_NODE)],
    ids=["queue", "object"],
)
def test_only_the_oldest_of_equal_jobs_is_examined_after_a_change_of_unknown_effect(change):
    world = full()
    change(world)
    assert world.session() == ({"j4"}, set())
    world.ends("runs0-0", "runs1-0")
    assert world.session()[1] == {"j4-0", "j3-0"}


def test_an_object_changed_only_in_its_resource_version_retries_no_job():
    world = full()
    world.cache.object_changed(None, HYPER_NODE)
    world.settle()
    again = msgspec.structs.replace(HYPER_NODE, metadata=msgspec.structs.replace(HYPER_NODE.metadata, resource_version="2"))
    world.cache.object_changed(HYPER_NODE, again)
    assert world.session() == (set(), set())


@pytest.mark.parametrize("actions", ["allocate", "allocate, preempt"])
def test_a_job_repelled_by_pod_anti_affinity_does_not_block_equal_jobs(actions):
    world = full(actions=actions)
    world.cache.pod_changed(None, minding("j4"))
    world.settle()
    world.ends("runs0-0")
    assert world.session()[1] == {"j3-0"}


def test_a_job_repelled_by_pod_anti_affinity_does_not_keep_equal_jobs_from_preempting():
    world = World.preempting(1)
    world.job("runs", 1, where="n", phase="Running")
    world.needs("runs", 0)
    world.cache.pod_changed(None, minding("j4"))
    world.waiting(3, 4, group={"class": 1})
    assert world.evicts() == ({"j3-0"}, {"runs-0"})


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"age": 20}, True),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, True),
        ({"annotations": {"volcano.sh/createdByJobFlow": "t.f"}}, True),
        ({"annotations": {"volcano.sh/sla-waiting-time": "1h"}}, False),
        ({"labels": {"app": "x"}}, True),
        ({"prio": 7}, False),
        ({"group": {"topo": ["hard", 1]}}, False),
        ({"group": {"phase": "Pending"}}, False),
        ({"size": 3}, False),
        ({"cpu": 2}, False),
        ({"pre": False}, False),
        ({"sel": {"disk": "ssd"}}, False),
        ({"anti": {"key": "zone", "app": "x"}}, False),
        ({"pvc": ["c"]}, False),
    ],
)
def test_jobs_share_an_equivalence_class_unless_a_scheduling_relevant_field_differs(change, is_same):
    world = World()
    world.job("a", 1, size=2)
    world.job("b", **{"cpu": 1, "size": 2, **change})
    assert world.class_of("a") is not None
    assert (world.class_of("a") == world.class_of("b")) is is_same


@pytest.mark.parametrize(
    "options",
    [
        {"where": "n"},
        {"claim": "device"},
        {"spread": {"key": "zone", "maxSkew": 1, "when": "DoNotSchedule", "match": {"volcano.sh/job-name": "a"}}},
        {"gates": ["g"]},
        {"cpu": 0},
    ],
)
def test_a_placed_or_individually_constrained_job_has_no_equivalence_class(options):
    world = World()
    world.node(8)
    world.job("a", **{"cpu": 1, **options})
    assert world.class_of("a") is None


def test_jobs_share_an_equivalence_class_only_if_they_mount_the_same_claims():
    world = World()
    for name, claims in (("a", ["c"]), ("b", ["c"]), ("d", ["other"]), ("e", ["c", "other"])):
        world.job(name, 1, pvc=claims)
    assert world.class_of("a") == world.class_of("b") is not None
    assert len({world.class_of(name) for name in "ade"}) == 3


def claim(**spec):
    metadata = {"namespace": "t", "name": "c", "uid": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, records.PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("known", "want"),
    [
        (None, None),
        (claim(), None),
        (claim(volumeName="v", accessModes=["ReadWriteOncePod"]), None),
        (claim(volumeName="v", accessModes=["ReadWriteMany"]), ("t/c",)),
    ],
)
def test_preemptors_share_infeasible_nodes_only_for_a_bound_claim_that_is_not_exclusive(known, want):
    cache = Cache()
    if known is not None:
        cache.object_changed(None, known)
    cache.pod_changed(None, objects.pod(["p", "j", "-", 1, "1Gi", {"pvc": ["c"]}]))
    configuration = configured("actions: allocate\ntiers: []")
    session = Session(cache.snapshot(), configuration, registry.plugins(), Ports(objects.NOW))
    assert InfeasibleNodes(session)._claims(cache.tasks["t-p"]) == want


def test_only_the_oldest_of_equal_jobs_with_pod_anti_affinity_is_examined():
    world = World()
    anti = {"key": "kubernetes.io/hostname", "app": "x"}
    world.node(64)
    for i in range(4):
        world.job(f"j{i}", 1, age=i, anti=anti, labels={"app": "x"})
    world.settle()
    assert world.cache.tasks["t-j3-0"].node == "n"
    world.node(64, "m")
    assert world.session()[1] == {"j2-0"}
    world.settle()
    world.node(32)
    assert world.session() == ({"j1"}, set())
    world.node(64, "k")
    assert world.session()[1] == {"j1-0"}


def test_a_job_held_after_a_refused_bind_does_not_keep_equal_jobs_from_preempting():
    world = World.preempting(2)
    world.job("runs", 1, where="n", phase="Running", group={"min": 0})
    world.needs("runs", 0)
    world.waiting(3, 4, group={"class": 1})
    world.cache.pods.assume("t-j4-0", "n")
    world.cache.pods.forget("t-j4-0", is_refused=True)
    world.node(1)
    assert world.evicts() == ({"j3-0"}, {"runs-0"})


@pytest.mark.parametrize(("label", "is_same"), [("training.kubeflow.org/replica-index", False), ("volcano.sh/task-index", True)])
def test_the_equivalence_class_depends_on_the_subgroups_of_a_job(label, is_same):
    world = World()
    policy = {"name": "p", "subGroupSize": 1, "matchLabelKeys": ["training.kubeflow.org/replica-index"]}
    for name, values in (("a", "00"), ("b", "01")):
        made = msgspec.to_builtins(objects.pod_group([name, "q", 2]))
        made["spec"]["subGroupPolicy"] = [policy]
        world.cache.group_changed(None, msgspec.convert(made, records.PodGroup))
        for i, value in enumerate(values):
            world.cache.pod_changed(None, objects.pod([f"{name}-{i}", name, "-", 1, "1Gi", {"labels": {label: value}}]))
    assert (world.class_of("a") == world.class_of("b")) is is_same


def test_one_eviction_that_frees_queue_capability_serves_two_equal_jobs():
    world = World.preempting(4, "proportion")
    world.queue(capability={"cpu": 5})
    world.job("stays", 1, where="n", phase="Running", group={"class": 1})
    for name in ("m", "o"):
        world.node(2, name, pods=1)
        world.job(f"on-{name}", 2, where=name, phase="Running")
        world.needs(f"on-{name}", 0)
    world.waiting(3, 4, group={"class": 1})
    promised, evicted = world.evicts()
    assert promised == {"j3-0", "j4-0"}
    assert len(evicted) == 1


def test_a_running_podgroup_that_loses_a_pod_to_preemption_gets_phase_unknown():
    world = World.preempting(2)
    world.configuration = configured(
        "actions: 'allocate, preempt'\ntiers:\n- plugins: [{name: priority}]\n- plugins: [{name: gang}, {name: predicates}]"
    )
    world.job("runs", 1, size=2, where="n", group={"phase": "Running"}, phase="Running")
    world.settle()
    assert world.cache.groups.current("t/runs").status.phase == "Running"
    world.job("j", 1, group={"class": 1})
    world.session()
    assert world.cache.groups.current("t/runs").status.phase == "Unknown"


@pytest.mark.parametrize("size", [1, 2])
def test_equal_jobs_keep_their_waiting_message_until_they_are_examined(size):
    world = World.preempting(2)
    world.job("runs", 1, size=2, where="n", phase="Running")
    world.needs("runs", 2)
    world.waiting(*range(5), size=size, group={"class": 1})
    world.settle()
    before = world.texts()
    assert world.session() == (set(), set())
    world.needs("runs", 2 - size)
    world.node(2)
    seen, _ = world.session()
    assert seen & {"j4", "j3"} == {"j4"}
    assert world.texts()[:4] == before[:4]
    assert world.texts()[4] != before[4]
    world.settle()
    assert all("NodesFull" in text or "RoomIsComing" in text for text in world.texts())


@pytest.mark.parametrize("options", [{"annotations": {"volcano.sh/task-priority": "9" * 30}}, {"group": {"roles": {"r": 2**70}}}])
def test_oversized_numbers_in_annotations_and_roles_do_not_fail_the_session(options):
    world = World()
    world.node(8)
    world.job("a", 9, **options)
    pod = msgspec.to_builtins(world.pods["a-0"])
    pod["metadata"]["annotations"] |= options.get("annotations", {})
    world.cache.pod_changed(None, msgspec.convert(pod, records.Pod))
    world.settle()
    assert world.session() == (set(), set())


def test_a_wait_queue_frees_most_entries_of_discarded_jobs():
    world = World()
    for i in range(300):
        world.job(f"j{i}", 1)
    first, *others = world.cache.snapshot().all_jobs.values()
    line = WaitQueue()
    line.add(first)
    for each in others:
        line.add(each)
        line.discard(each.key)
    assert first in line.order
    assert len(line.order) < 100


def test_labels_split_an_equivalence_class_once_a_pod_affinity_term_selects_them():
    world = World()
    world.node(2, labels={"zone": "a"})
    world.job("runs", 2, where="n")
    for i in range(4):
        world.job(f"j{i}", 2, labels={"run": f"r{i}"}, age=i)
    world.settle()
    assert len({world.class_of(f"j{i}") for i in range(4)}) == 1
    world.node(3, labels={"zone": "a"})
    assert world.session()[0] == set(), "there is no room for a pod"
    world.job("near", 9, labels={"app": "b"}, anti={"key": "zone", "run": "r3"})
    assert world.session()[0] == {"near", *(f"j{i}" for i in range(4))}, "each is looked at by itself"
    assert len({world.class_of(f"j{i}") for i in range(4)}) == 4


def test_a_job_whose_equivalence_class_changed_during_the_session_is_examined_again():
    world = World()
    world.node(2)
    for i in range(3):
        world.job(f"j{i}", 3, labels={"run": f"r{i}"}, age=i)
    world.settle()
    (facts,) = (each for each in world.cache.snapshot().all_jobs.values() if each.name == "j0")
    rest = UnschedulableJob(facts, frozenset(Room(task.shape) for task in facts.tasks), facts.equivalence_class)
    world.job("near", 9, anti={"key": "zone", "run": "r2"})
    world.settle()
    world.cache.retries.add(rest)
    assert "j0" in world.session()[0]


class Reader:
    """A plugin of somebody else's."""

    def __init__(self, arguments):
        del arguments

    def open(self, session):
        del session
        return Extensions()


@pytest.mark.parametrize(("reads", "want"), [(None, 3), (True, 3), (False, 1)])
def test_external_plugins_split_equivalence_classes_by_labels_unless_reads_labels_is_false(reads, want):
    plugin = Reader if reads is None else type("Reader", (Reader,), {"reads_labels": reads})
    plugins = {**registry.plugins(), "reader": plugin}
    text = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: reader}]}]"
    world = World()
    world.node(2)
    for i in range(3):
        world.job(f"j{i}", 3, labels={"run": f"r{i}"}, age=i)
    configuration = configured(text, plugins)
    take_statuses(world.cache, decided(world.cache, configuration, plugins=plugins)[0])
    outcome, _ = decided(world.cache, configuration, plugins=plugins)
    assert len({rest.equivalence_class for rest in outcome.unschedulable}) == want


@pytest.mark.parametrize(("namespace", "labels", "want"), [
    ("kube-system", {}, 1),
    ("t", {"app": "dns"}, 1),
    ("t", {}, 3),
])  # fmt: skip
def test_equal_jobs_are_examined_singly_only_if_an_affinity_term_may_select_their_pods(namespace, labels, want):
    world = World()
    world.node(2)
    for i in range(3):
        world.job(f"j{i}", 3, labels={"app": "b"}, age=i)
    body = msgspec.to_builtins(objects.pod(["dns", "", "n", 0, 0]))
    body["metadata"]["namespace"] = namespace
    selector = {"matchLabels": labels, "matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    body["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.cache.pod_changed(None, msgspec.convert(body, records.Pod))
    world.settle()
    world.cache.stale()
    assert len(world.session()[0]) == want
