"""What a session says of jobs that it could do nothing for: which changes are worth another look, and that none is missed."""

from types import SimpleNamespace

import numpy as np
import pytest

from pyroclast.api import keys
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import Culprit, find_culprit
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.triggers import AnyChange, AnyRoom, Eviction, Labelled, Neighbours, Pause, QueueUse, Room
from pyroclast_scheduler.session.extension_points import Extensions, Invalid, Vote
from tests.scenarios import objects
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import committed, configured, decided, evicted, one_tier

PLUGINS = ("priority", "gang", "predicates", "nodeorder")


def rooms(rest):
    return {each.pods for each in rest.retry_when if isinstance(each, Room)}


def minded(rest):
    """The labels of pods that matter to it; None where it does not matter where others are."""
    labels = {(each.key, each.value) for each in rest.retry_when if isinstance(each, Labelled)}
    return labels if Neighbours() in rest.retry_when else None


class World:
    """Jobs of one queue in a small cluster, under some plugins."""

    def __init__(self, plugins=PLUGINS, actions="enqueue, allocate, backfill"):
        self.configuration = one_tier(plugins, actions)
        self.cache = Cache()
        self.known = {}
        self.queue("q")
        self.nodes = {}

    def queue(self, name, **options):
        new = objects.queue([name, options])
        self.cache.queue_changed(self.known.get(name), new)
        self.known[name] = new

    def node(self, name, cpu, **options):
        new = objects.node(
            [name, cpu, "64Gi", {**options, "labels": {"kubernetes.io/hostname": name, **options.get("labels", {})}}]
        )
        self.cache.node_changed(self.nodes.get(name), new)
        self.nodes[name] = new

    def job(self, name, cpu, *, size=1, minimum=None, where="-", group=None, **options):
        self.cache.group_changed(None, objects.pod_group([name, "q", size if minimum is None else minimum, group or {}]))
        for i in range(size):
            self.cache.pod_changed(None, objects.pod([f"{name}-{i}", name, where, cpu, "1Gi", options]))

    def session(self):
        """What the next session binds, its rests by name of the job, and its outcome."""
        outcome, binds = decided(self.cache, self.configuration)
        for uid, node in binds.items():
            assert self.cache.pods.assume(uid, node) is None
        take(self.cache, outcome)
        return binds, {rest.facts.name: rest for rest in outcome.unschedulable}, outcome

    def goes(self, name):
        self.cache.pod_changed(self.cache.tasks[f"t-{name}"].pod, None)

    def looked_at(self):
        """The jobs of the next session."""
        return {key.removeprefix("t/") for key in self.session()[2].seen}

    def settled(self):
        """The last rest of each job, when nothing is left to be decided."""
        found = {}
        for _ in range(4):
            found |= self.session()[1]
        return found

    def looked_at_after(self, change):
        """The jobs of the session that follows `change`, which happens when nothing is left to be decided."""
        self.settled()
        self.cache.pod_changed(None, objects.pod(["plain", "", "n", 0, 0, {}]))  # what sessions did counts with the next event
        self.settled()
        change(self)
        return self.looked_at()


def test_a_job_behind_a_pipelined_pod_is_retried_only_when_that_pod_is_deleted():
    world = World()
    world.node("n", 4)
    world.job("runs", 4, where="n", releasing=True)
    world.job("a", 4)
    world.job("b", 3)
    rests = world.settled()
    assert rests["b"].retry_when == {Room(next(iter(rests["b"].facts.tasks)).shape)}
    world.job("plain", 0, where="n")
    outcome = world.session()[2]
    assert (outcome.promised, "t/b" in outcome.seen) == ({"t-a-0": "n"}, False)
    world.goes("a-0")
    world.session()
    assert world.session()[2].promised == {"t-b-0": "n"}


def test_without_the_gang_plugin_a_job_is_retried_by_room_for_one_pod():
    world = World(plugins=("predicates",))
    world.node("n", 1)
    world.job("j", 2, size=4)
    assert rooms(world.settled()["j"]) == {1}
    world.node("n", 2)
    assert world.session()[0] == {"t-j-0": "n"}


@pytest.mark.parametrize(("plugins", "want"), [(("predicates",), []), (PLUGINS, ["t/j"])])
def test_a_job_below_its_minimum_is_incomplete_only_with_the_gang_plugin(plugins, want):
    world = World(plugins=plugins)
    world.node("n", 1)
    world.job("j", 1, size=2)
    world.cache.pod_changed(None, objects.pod(["j-0", "j", "n", 1, "1Gi", {"phase": "Pending"}]))
    assert world.session()[2].incomplete == want


def test_with_the_gang_plugin_a_job_is_retried_only_by_room_for_all_its_waiting_pods():
    world = World()
    world.node("n", 1)
    world.job("j", 2, size=4)
    assert rooms(world.settled()["j"]) == {4}
    world.node("n", 7)
    assert world.looked_at() == set()
    world.node("n", 8)
    assert len(world.session()[0]) == 4


def test_a_gang_with_a_hard_topology_is_retried_by_room_on_a_node_too_small_for_its_pods():
    world = World(plugins=("priority", "gang", "predicates", "network-topology-aware"))
    world.node("a", 4)
    world.node("b", 2)
    world.cache.object_changed(None, objects.hyper_node("h", 1, ["a", "b"], {}))
    world.job("other", 1, where="b")
    world.job("j", 3, group={"topo": ["hard", 1], "minRes": {"cpu": 6}})
    assert world.settled()["j"].retry_when == {AnyRoom()}
    world.cache.pod_changed(objects.pod(["other-0", "other", "b", 1, "1Gi", {}]), None)
    assert world.session()[0] == {"t-j-0": "a"}


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
    "labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}}]}  # fmt: skip


SPREAD = {"key": "kubernetes.io/hostname", "maxSkew": 1, "when": "ScheduleAnyway", "match": {"app": "x"}}
ANTI = {"anti": {"key": "kubernetes.io/hostname", "app": "x"}}


@pytest.mark.parametrize(
    ("waiting", "resident", "want"),
    [
        ({}, {}, (False, None)),
        ({}, ANTI, (False, None)),
        ({"labels": {"app": "x"}}, ANTI, (False, set())),
        ({"affine": {"key": "kubernetes.io/hostname", "app": "x"}}, {}, (False, {("app", "x")})),
        (ANTI, {}, (False, {("app", "x")})),
        ({"spread": SPREAD | {"when": "DoNotSchedule"}}, {}, (False, {("app", "x")})),
        ({"spread": SPREAD}, {}, (False, None)),
        ({"pvc": ["c"]}, {}, (False, None)),
    ],
)
def test_retry_triggers_depend_on_other_pods_only_for_required_affinity_or_spread(waiting, resident, want):
    world = World()
    world.node("n", 4)
    world.job("loner", 1, where="n", **resident)
    world.job("j", 9, **waiting)
    rest = world.settled()["j"]
    assert (AnyChange() in rest.retry_when, minded(rest)) == want


EVENTS = {
    "a pod that it minds goes": (lambda world: world.goes("near-0"), True),
    "a pod that nobody minds goes": (lambda world: world.goes("other-0"), False),
    "a pod that minds others goes": (lambda world: world.goes("loner-0"), True),
    "a pod that nobody minds comes": (lambda world: world.job("late", 0, where="full"), False),
    "another node gets room": (lambda world: world.node("full", 2, labels={"zone": "a"}), False),
    "another node gets a label": (lambda world: world.node("full", 1, labels={"zone": "a", "more": "b"}), True),
    "another node comes": (lambda world: world.node("new", 1), True),
    "a node may take it": (lambda world: world.node("full", 9, labels={"zone": "a"}), True),
}


@pytest.mark.parametrize(("event", "want"), EVENTS.values(), ids=EVENTS)
def test_a_job_with_pod_anti_affinity_is_retried_only_by_changes_of_related_pods_or_nodes(event, want):
    world = World()
    world.node("n", 9, labels={"kubernetes.io/hostname": "n"})
    world.node("full", 1, labels={"zone": "a"})
    for name, options in (("near", {"labels": {"app": "x"}}), ("other", {"labels": {"app": "y"}}), ("loner", ANTI)):
        world.job(name, 1, where="n" if name == "near" else "full", **options)
    world.job("j", 4, **ANTI)
    world.settled()
    event(world)
    assert ("j" in world.looked_at()) is want


def test_preferred_affinity_terms_add_no_any_change_trigger():
    world = World()
    world.node("n", 4)
    stranger = objects.edited(objects.pod(["dns", "", "n", 1, "1Gi", {}]), spec={"affinity": {"podAntiAffinity": PREFERRED}})
    world.cache.pod_changed(None, stranger)
    world.job("j", 9, labels={"app": "x"})
    world.cache.group_changed(None, objects.pod_group(["own", "q", 1]))
    world.cache.pod_changed(
        None, objects.edited(objects.pod(["own-0", "own", "-", 9, "1Gi", {}]), spec={"affinity": {"podAffinity": PREFERRED}})
    )
    rests = world.settled()
    assert [AnyChange() in rests[name].retry_when for name in ("j", "own")] == [False, False]


def test_deleting_a_pod_with_anti_affinity_retries_the_jobs_it_repelled():
    world = World()
    world.node("n", 4)
    loner = objects.pod(["loner", "", "n", 0, 0, ANTI])
    world.cache.pod_changed(None, loner)
    world.job("j", 1, labels={"app": "x"})
    assert minded(world.settled()["j"]) == set()
    world.cache.pod_changed(loner, None)
    assert world.session()[0] == {"t-j-0": "n"}


def test_a_job_at_a_node_group_limit_is_retried_by_quota_freed_on_any_node_of_the_group():
    world = World(plugins=("gang", "predicates", "nodegroup"))
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}}
    annotations = {keys.NODE_GROUP_RESOURCE_LIMITS: '{"g": {"cpu": "4"}}'}
    limited = objects.edited(objects.queue(["q"]), spec={"affinity": affinity}, metadata={"annotations": annotations})
    world.cache.queue_changed(objects.queue(["q"]), limited)
    for name, cpu in (("large", 16), ("tiny", 1)):
        world.node(name, cpu, labels={keys.NODE_GROUP_NAME: "g"})
    world.job("runs", 1, where="tiny")
    world.job("j", 4)
    assert {QueueUse("q"), Neighbours()} <= world.settled()["j"].retry_when
    world.cache.pod_changed(None, objects.pod(["stranger", "", "tiny", 0, 0, {}]))
    assert "j" not in world.looked_at()
    world.cache.pod_changed(objects.pod(["runs-0", "runs", "tiny", 1, "1Gi", {}]), None)
    assert world.session()[0] == {"t-j-0": "large"}


FILLING = ("priority", "gang", "predicates", "overcommit", "proportion", "nodeorder")


def test_jobs_of_a_full_queue_are_bound_when_the_queue_may_allocate_more():
    world = World(plugins=FILLING)
    world.queue("q", capability={"cpu": 4})
    world.node("n", 64)
    world.job("runs", 3, where="n")
    world.job("low", 2)
    world.job("high", 2, group={"class": 1})
    world.cache.priority_changed(None, objects.priority_class(1))
    world.settled()
    world.node("n", 32)
    world.queue("other")
    assert world.session()[0] == {}
    world.cache.pod_changed(
        objects.pod(["runs-0", "runs", "n", 3, "1Gi", {}]), objects.pod(["runs-0", "runs", "n", 2, "1Gi", {}])
    )
    assert world.session()[0] == {"t-high-0": "n"}
    world.settled()
    world.queue("q", capability={"cpu": 6})
    assert world.session()[0] == {"t-low-0": "n"}


def test_a_gang_of_a_full_queue_waits_until_all_of_it_is_within_the_limit():
    world = World(plugins=FILLING)
    world.queue("q", capability={"cpu": 6})
    world.node("n", 64)
    world.job("runs", 1, where="n")
    world.job("j", 2, size=3)
    world.settled()
    world.node("n", 32)
    assert world.session()[0] == {}
    world.cache.pod_changed(objects.pod(["runs-0", "runs", "n", 1, "1Gi", {}]), None)
    assert len(world.session()[0]) == 3


def pending(cpu):
    return {"phase": "Pending", "minRes": {"cpu": cpu}}


@pytest.mark.parametrize(("plugins", "actions"), [
    (FILLING, "enqueue, allocate, backfill"),
    (FILLING, "enqueue, allocate, preempt, backfill"),
    (FILLING, "allocate, enqueue"),
    ((*FILLING, "sla"), "enqueue, allocate, backfill"),
])  # fmt: skip
def test_a_pending_job_is_admitted_once_the_cluster_has_room_for_it(plugins, actions):
    world = World(plugins=plugins, actions=actions)
    world.node("n", 8)
    world.job("j", 1, group=pending(20))
    world.settled()
    world.node("m", 1)
    assert "t/j" not in world.session()[2].statuses
    world.node("m", 16)
    assert world.session()[2].statuses["t/j"].phase == "Inqueue"


def test_a_waiting_job_reports_queue_closed_when_its_full_queue_closes():
    world = World(plugins=FILLING)
    world.queue("q", capability={"cpu": 4})
    world.node("n", 64)
    world.job("j", 5)
    world.settled()
    world.queue("q", capability={"cpu": 4}, state="Closed")
    assert "QueueClosed" in world.session()[2].statuses["t/j"].conditions[-1].message


def failing(job):
    """The vote of a plugin that fails when it is asked about one job."""
    if job.facts.min_resources.get("cpu") == 21_000:
        raise RuntimeError
    return Vote.REJECT


def opening(opened):
    """The factory of a plugin that registers `opened(session)`."""
    return lambda _arguments: SimpleNamespace(open=opened)


def test_a_waiting_job_on_which_a_plugin_fails_is_found_as_the_culprit():
    world = World(plugins=FILLING)
    world.node("n", 8)
    for i in range(3):
        world.job(f"j{i}", 1, group=pending(20 + i))
    world.settled()
    world.node("m", 1)
    plugins = {**registry.plugins(), "overcommit": opening(lambda _: Extensions(job_enqueueable=failing))}

    def fails(snapshot):
        try:
            committed(snapshot, world.configuration, plugins=plugins)
        except RuntimeError:
            return True
        return False

    snapshot = world.cache.snapshot()
    assert fails(snapshot)
    assert find_culprit(snapshot, fails) == Culprit("podgroup", "t/j1")


ASKED = {
    "nothing": (lambda session: session.ports.now, set()),
    "the time": (lambda session: session.now(), {Pause(1)}),
    "measurements": (lambda session: session.usage(), {Pause(1)}),
    "what is outside": (lambda session: session.extender(), {AnyChange(), Pause(10)}),
}


def rest_with(extensions, actions="allocate, preempt"):
    """What is said of a job that fits nowhere, with a plugin that registers `extensions(session)`; and what is remembered."""

    plugins, memory = {**registry.plugins(), "other": opening(extensions)}, {}
    text = f"actions: '{actions}'\ntiers: [plugins: [{{name: other}}, {{name: predicates}}]]"
    world = World()
    world.node("n", 1)
    world.job("j", 2)
    for _ in range(2):
        memory.clear()
        outcome, _ = committed(world.cache, configured(text, plugins), plugins=plugins, memory=memory)
        take(world.cache, outcome)
    (rest,) = outcome.unschedulable
    return rest.retry_when, memory


@pytest.mark.parametrize(("ask", "want"), ASKED.values(), ids=ASKED)
def test_retry_triggers_include_a_pause_when_a_plugin_reads_time_usage_or_the_extender(ask, want):
    found, memory = rest_with(lambda session: Extensions(job_starving=lambda _: ask(session) is not None))
    assert {each for each in found if isinstance(each, AnyChange | Pause)} == want
    assert ("preempt" in memory) is (not want), "nodes where nobody may go now are remembered only where time does not count"


COUPLED = {
    "that it does not tell": ({"coupled_predicate": lambda task, plan: []}, AnyChange),
    "that it tells": (
        {"coupled_predicate": lambda task, plan: [], "retry_when": lambda task, plan: [Labelled("a", "b")]},
        Labelled,
    ),
    "nothing on other nodes": ({"coupled_predicate": lambda task, plan: [], "retry_when": lambda task, plan: ()}, None),
    "nothing for this pod": ({"coupled_predicate": lambda task, plan: None}, None),
    "a refusal of all nodes": ({"pre_predicate": lambda task, plan: "no licence"}, AnyChange),
    "a refusal of all nodes that it tells of": (
        {"pre_predicate": lambda task, plan: "no licence", "retry_when": lambda task, plan: [Labelled("a", "b")]},
        Labelled,
    ),
    "nodes kept for others": ({"closed_to": lambda job: [Refusal(np.ones(1, dtype=np.bool_), "kept")]}, AnyChange),
    "no node kept for others": ({"closed_to": lambda job: [Refusal(np.zeros(1, dtype=np.bool_), "kept")]}, None),
}
INVALID = {
    "for a reason that it does not tell": (Invalid("Odd", "odd"), {AnyChange()}),
    "for a reason that it tells": (Invalid("Odd", "odd", retry_when=[Labelled("a", "b")]), {Labelled("a", "b")}),
    "for a reason of its own": (Invalid("Odd", "odd", retry_when=()), set()),
}


@pytest.mark.parametrize(("points", "want"), COUPLED.values(), ids=COUPLED)
def test_a_plugin_refusal_beyond_one_node_adds_any_change_unless_it_declares_triggers(points, want):
    found, _ = rest_with(lambda _: Extensions(**points), actions="allocate")
    assert {type(each) for each in found} == ({AnyChange} if want is AnyChange else {Room, want} - {None})


@pytest.mark.parametrize(("invalid", "want"), INVALID.values(), ids=INVALID)
def test_a_job_invalid_for_a_plugin_is_retried_by_its_declared_triggers_or_else_any_change(invalid, want):
    assert rest_with(lambda _: Extensions(job_valid=lambda _: invalid), actions="allocate")[0] == want


def test_freed_quota_is_promised_by_job_order_and_not_by_order_of_creation():
    world = World(plugins=("priority", "gang", "predicates", "proportion"), actions="allocate, preempt")
    world.queue("q", capability={"cpu": 4})
    world.node("n", 64)
    for name, cpu in (("a", 4), ("c", 3), ("b", "3500m")):
        world.job(name, cpu, size=2)
        world.settled()
    for i in range(2):
        world.goes(f"a-{i}")
    assert world.session()[2].promised == {"t-b-0": "n"}, "as a session over all jobs decides, which goes by name"


def test_an_equal_job_is_examined_after_another_received_room_for_only_one_of_its_pods():
    world = World()
    world.configuration = configured(
        "actions: 'allocate, preempt, reclaim'\n"
        "tiers: [{plugins: [{name: gang}]}, {plugins: [{name: drf}, {name: predicates}, {name: proportion}]}]"
    )
    world.queue("q", weight=100)
    world.queue("other", reclaimable=False)
    world.node("n", 4)
    for name in ("v", "w"):
        world.cache.group_changed(None, objects.pod_group([name, "other", 1, {}]))
        world.cache.pod_changed(None, objects.pod([f"{name}-0", name, "n", 2, "1Gi", {"pre": True}]))
    for name in ("a", "b"):
        world.job(name, 2, size=2)
    world.settled()
    world.queue("other")
    world.node("m", 3)
    outcome, commits = committed(world.cache, world.configuration)
    assert set(outcome.promised) == {"t-a-0", "t-b-0", "t-b-1"}, "the second has less and so comes first when others go"
    assert sorted(evicted(commits)) == ["v-0", "w-0"]


def evicting(capability, *, action="preempt"):
    """A queue with a limit, of which one Job may go for those that matter more, on one of two nodes."""
    world = World(plugins=("priority", "gang, enablePreemptable: false", "predicates", "capacity"), actions=f"allocate, {action}")
    world.cache.priority_changed(None, objects.priority_class(1))
    world.queue("q", capability={"cpu": capability})
    world.node("n", 4)
    world.job("low", 2, where="n", pre=True)
    return world


@pytest.mark.parametrize(("size", "want"), [(1, {Eviction, QueueUse}), (2, {Eviction, AnyChange})])
def test_a_job_beyond_its_quota_waits_for_queue_use_or_for_any_change_if_it_needs_two_pods(size, want):
    world = evicting(2)
    world.job("high", 3, size=size, group={"class": 1})
    assert {type(each) for each in world.settled()["high"].retry_when} == want


def test_a_job_preempts_after_its_queue_releases_resources_allocated_since_its_last_try():
    world = evicting(6)
    world.node("m", 3)
    low = objects.pod(["low-0", "low", "n", 2, "1Gi", {"pre": True}])
    world.cache.pod_changed(low, objects.pod(["low-0", "low", "n", 2, "1Gi", {"pre": False}]))
    world.job("high", 4, group={"class": 1})
    world.settled()
    world.cache.pod_changed(world.cache.tasks["t-low-0"].pod, low)
    world.job("other", 3, group={"class": 1})
    world.settled()
    world.goes("other-0")
    outcome, commits = committed(world.cache, world.configuration)
    assert (evicted(commits), outcome.promised) == (["low-0"], {"t-high-0": "n"})


def test_gangpreempt_retries_a_job_beyond_its_quota_when_a_pod_elsewhere_becomes_preemptable():
    world = evicting(5, action="gangpreempt")
    world.node("m", 3)  # too small for the pod of the Job, whose queue needs the CPUs of both victims
    protected, preemptable = ([name, "side", "m", 2, "1Gi", {"pre": pre}] for name, pre in (("side-0", False), ("side-0", True)))
    world.cache.group_changed(None, objects.pod_group(["side", "q", 1]))
    world.cache.pod_changed(None, objects.pod(protected))
    world.job("high", 4, group={"class": 1})
    assert "high" in world.settled()
    world.cache.pod_changed(objects.pod(protected), objects.pod(preemptable))
    assert sorted(evicted(committed(world.cache, world.configuration)[1])) == ["low-0", "side-0"]


def test_a_job_beyond_its_quota_is_retried_when_the_labels_of_a_pod_it_repels_change():
    world = evicting(2)
    app = objects.pod(["foe-0", "foe", "n", 1, "1Gi", {"labels": {"app": "x"}}])
    world.queue("others")
    world.cache.group_changed(None, objects.pod_group(["foe", "others", 1]))
    world.cache.pod_changed(None, app)
    world.job("high", 2, group={"class": 1}, **ANTI)
    assert AnyChange() not in world.settled()["high"].retry_when
    world.cache.pod_changed(app, objects.pod(["foe-0", "foe", "n", 1, "1Gi", {"labels": {"app": "y"}}]))
    assert evicted(committed(world.cache, world.configuration)[1]) == ["low-0"]
