"""Room that is kept for gangs: for whom, for how long, and from whom, over many sessions of the default plugins."""

import random
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.recovery import lost_members
from pyroclast_scheduler.model.tasks import READY, TaskStatus
from tests.counts import ONE_IN
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.scenarios.taking import take_rests
from tests.unit.scheduler.deciding import committed, configured

DEFAULT = """
actions: "enqueue, allocate, backfill"
configurations:
- name: enqueue
  arguments: {promisePeriods: 5}
- name: allocate
  arguments: {recoveryPeriods: 5}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CAPACITY = DEFAULT.replace("{name: proportion}", "{name: capacity}")
PERIODS = 5


class World:
    """Nodes of 8 cpu, and pods that run from the moment of their bind. `step` lets one schedule period pass."""

    def __init__(self, nodes=4, *, text=DEFAULT, queues=(("q", {}),)):
        self.cache, self.settings = Cache(), configured(text)
        self.period, self.memory, self.groups, self.messages = 0, {}, {}, set()
        labels = [{"labels": {"host": f"n{i}"}} for i in range(nodes)]
        feed(self.cache, {"nodes": [[f"n{i}", 8, "64Gi", labels[i]] for i in range(nodes)], "queues": [list(q) for q in queues]})

    def group(
        self, name, minimum, cpu, *, pods=None, queue="q", priority=0, res=None, after=True, delay=0, phase="Pending", **options
    ):
        """`after`: whether pods are created only after the group is let in. `delay`: periods per pod; None: no pod comes."""
        count = minimum if pods is None else pods
        made = self.groups[name] = SimpleNamespace(
            name=name, minimum=minimum, cpu=cpu, pods=count, queue=queue, options=options, after=after, delay=delay, created=0
        )
        spec = {"phase": phase, "minRes": {"cpu": minimum * cpu if res is None else res}, "class": priority}
        feed(self.cache, {"podgroups": [[name, queue, minimum, spec]], "pods": []})
        self._create(made)

    def _create(self, group):
        if group.delay is None or (group.after and self.phase(group.name) == "Pending"):
            return
        until = group.pods if not group.delay else min(group.pods, group.created + (self.period % group.delay == 0))
        for i in range(group.created, until):
            self._pod(group, i, "-")
        group.created = until

    def _pod(self, group, i, node):
        pod = objects.pod([f"{group.name}-{i}", group.name, node, group.cpu, 0, group.options])
        if node != "-":
            pod = objects.edited(pod, status={"phase": "Running", "startTime": objects.timestamp(objects.NOW)})
        before = next((task.pod for task in self.tasks(group.name) if task.name == pod.metadata.name), None)
        self.cache.pod_changed(before, pod)

    def tasks(self, name):
        return list(self.cache.groups.tasks_of(f"t/{name}"))

    def finish(self, name):
        for task in self.tasks(name):
            self.cache.pod_changed(task.pod, objects.edited(task.pod, status={"phase": "Succeeded"}))

    def remove_pods(self, name):
        for task in self.tasks(name):
            self.cache.pod_changed(task.pod, None)

    def lose(self, name, *numbers, status=None):
        """Let pods of a group be deleted, or have a status. They come again when `created` of the group says so."""
        for task in self.tasks(name):
            if int(task.name.rpartition("-")[2]) in numbers:
                self.cache.pod_changed(task.pod, objects.edited(task.pod, status=status) if status else None)

    def come_again(self, name, *numbers):
        for number in numbers:
            self._pod(self.groups[name], number, "-")

    def delete(self, name):
        self.remove_pods(name)
        group = self.groups.pop(name)
        self.cache.group_changed(objects.pod_group([name, group.queue, group.minimum, {}]), None)

    def step(self, periods=1):
        for _ in range(periods):
            self.period += 1
            self.cache.recheck()
            for group in list(self.groups.values()):
                self._create(group)
            outcome, commits = committed(
                self.cache, self.settings, now=objects.NOW + self.period, period=self.period, memory=self.memory
            )
            take_rests(self.cache, outcome)
            for commit in commits:
                for binds in commit.binds:
                    for uid, node in binds.placed:
                        name, _, index = self.cache.tasks[uid].name.rpartition("-")
                        self._pod(self.groups[name], int(index), node)
            for key, status in outcome.statuses.items():
                self.cache.groups.believe(key, status)
                self.messages |= {each.message for each in status.conditions}
        return self

    # -- what is seen ----------------------------------------------------------------------------------------------------

    def facts(self, name):
        return self.cache.view().all_jobs[f"t/{name}"]

    def phase(self, name):
        return str(self.facts(name).phase)

    def why(self, name):
        return " ".join(each.message for each in self.facts(name).group.status.conditions if each.type == "Unschedulable")

    def running(self, name):
        return sum(bool(task.node) for task in self.tasks(name))

    def promised(self):
        return sum(sums.inqueue_whole[0] for sums in self.cache.view().queue_sums.values()) / 1000


TEXTS = pytest.mark.parametrize("text", [DEFAULT, CAPACITY], ids=["proportion", "capacity"])


@pytest.fixture(params=[DEFAULT, CAPACITY], ids=["proportion", "capacity"])
def world(request):
    return World(text=request.param)


# -- a gang that ended ---------------------------------------------------------------------------------------------------


def test_a_completed_group_whose_pods_are_removed_stays_completed_and_holds_nothing(world):
    world.group("done", 4, 7)
    world.step(4)
    world.finish("done")
    world.step(2)
    assert world.phase("done") == "Completed"
    world.groups["done"].delay = None
    world.remove_pods("done")
    world.step(3)
    assert (world.phase("done"), world.promised()) == ("Completed", 0)
    world.group("next", 3, 7)
    assert world.step(4).running("next") == 3


def test_a_completed_group_with_new_pods_is_let_in_again(world):
    world.group("again", 2, 1)
    world.step(3)
    world.finish("again")
    world.step(2)
    world.remove_pods("again")
    world.groups["again"].created = 0
    assert world.step(4).running("again") == 2
    assert world.phase("again") == "Running"


# -- a gang that cannot start --------------------------------------------------------------------------------------------

STUCK = {
    "bigger than any node": (3, 9, {}),
    "no node has its label": (6, 4, {"sel": {"disk": "tape"}}),
    "its claim does not exist": (6, 4, {"pvc": ["missing"]}),
    "behind a gate": (6, 4, {"gates": ["example.com/wait"]}),
    "more pods than nodes hold": (5, 5, {}),
}


@pytest.mark.parametrize("after", [True, False], ids=["pods come later", "pods are there"])
@pytest.mark.parametrize("case", STUCK.values(), ids=STUCK)
def test_a_gang_that_cannot_start_holds_no_room(world, case, after):
    minimum, cpu, options = case
    world.group("stuck", minimum, cpu, after=after, **options)
    world.step(4)
    assert world.running("stuck") == 0
    assert world.promised() == 0
    world.group("next", 7, 4)
    assert world.step(4).running("next") == 7


def test_a_gang_that_could_not_start_is_placed_when_a_node_has_its_label(world):
    world.group("stuck", 2, 4, sel={"disk": "tape"})
    world.step(4)
    feed(world.cache, {"nodes": [["n9", 8, "64Gi", {"labels": {"disk": "tape"}}]], "pods": []})
    assert world.step(4).running("stuck") == 2


def test_a_gang_is_owed_room_only_while_it_starts_or_waits_for_nodes_and_not_for_long(world):
    world.group("starting", 2, 1, delay=None)
    world.group("stuck", 1, 4, sel={"disk": "tape"})
    world.group("waits", 1, 4, priority=1, sel={"host": "n1"})
    world.group("runs", 1, 8, priority=9, sel={"host": "n1"})
    world.step(4)
    promises = {name: world.facts(name).promise for name in ("starting", "stuck", "waits")}
    assert {name: (str(each.why), dict(each.amounts)) for name, each in promises.items()} == {
        "starting": ("its pods are being created", {"cpu": 2000}),
        "stuck": ("something other than room holds it up", {}),
        "waits": ("its pods wait for room on nodes", {"cpu": 4000}),
    }
    world.step(2 * PERIODS)
    assert "t/waits" in world.memory["promises.over"]


# -- pods that do not come -----------------------------------------------------------------------------------------------


def test_a_gang_whose_pods_do_not_come_is_sent_back_and_says_so(world):
    world.group("absent", 4, 7, delay=None)
    world.step(PERIODS - 1)
    assert (world.phase("absent"), world.promised()) == ("Inqueue", 28)
    world.group("next", 3, 7)
    world.step(2 * PERIODS)
    assert world.running("next") == 3
    assert world.phase("absent") == "Pending"


def test_a_gang_whose_pods_do_not_come_is_let_in_again_by_its_pods_and_now_and_then(world):
    world.group("absent", 4, 7, delay=None)
    phases = [world.step().phase("absent") for _ in range(60)]
    assert "PodsMissing: not now: 0 of at least 4 pods are there" in world.why("absent") or phases[-1] == "Inqueue"
    turns = [i for i in range(1, 60) if (phases[i - 1], phases[i]) == ("Pending", "Inqueue")]
    assert 2 <= len(turns) <= 4
    gaps = [after - before for before, after in pairwise(turns)]
    assert gaps == sorted(gaps)
    world.groups["absent"].delay, world.groups["absent"].after = 0, False
    assert world.step(4).running("absent") == 4


def test_pods_that_come_slowly_keep_the_promise(world):
    world.group("slow", 8, 2, delay=PERIODS - 2)
    for _ in range(8 * (PERIODS - 2) + 4):
        world.step()
        assert world.phase("slow") != "Pending" or not world.groups["slow"].created
    assert world.running("slow") == 8


# -- groups that ask for more than their pods use ------------------------------------------------------------------------


@pytest.mark.parametrize("minimum", [0, 1])
def test_a_group_promises_only_what_its_pods_can_use(world, minimum):
    world.group("big", minimum, 1, pods=1, res=30, after=False)
    world.step(3)
    assert (world.running("big"), world.promised()) == (1, 0)
    world.group("next", 4, 7)
    assert world.step(4).running("next") == 3 + 1


# -- more important gangs ------------------------------------------------------------------------------------------------


def test_less_important_gangs_for_one_busy_node_keep_an_important_one_from_no_free_node():
    world = World(queues=[("q", {}), ("low", {"weight": 1}), ("high", {"weight": 100})])
    for i in range(40):
        world.group(f"low{i}", 1, 4, queue="low", priority=10, sel={"host": "n1"})
    world.step(3)
    world.group("high", 1, 4, queue="high", priority=100, sel={"host": "n2"})
    assert world.step(3).running("high") == 1
    world.group("plain", 1, 4, sel={"host": "n3"})
    assert world.step(3 * PERIODS).running("plain") == 1


@TEXTS
def test_in_one_queue_the_less_important_gangs_are_sent_back(text):
    world = World(text=text, queues=[("q", {"capability": {"cpu": 20}})])
    for i in range(5):
        world.group(f"low{i}", 1, 4, priority=10, sel={"host": "n1"})
    world.step(3)
    assert [world.phase(f"low{i}") for i in range(5)].count("Inqueue") == 3
    world.group("high", 1, 8, priority=100, sel={"host": "n2"})
    world.step(3)
    assert world.running("high") == 1
    phases = [world.phase(f"low{i}") for i in range(5)]
    assert (phases.count("Running"), phases.count("Inqueue"), phases.count("Pending")) == (2, 1, 2), "no more than needed"
    text = "BehindAnother: not now: its room was promised to t/high (priority 100), which goes first"
    assert any(message.endswith(text) for message in world.messages)


def test_gangs_of_equal_or_higher_importance_keep_their_promises():
    world = World(queues=[("q", {"capability": {"cpu": 20}})])
    world.group("first", 4, 4, priority=10, delay=3)
    world.step(2)
    world.group("second", 2, 4, priority=10)
    world.group("third", 2, 4, priority=5)
    world.step(2)
    assert [world.phase(name) for name in ("first", "second", "third")] == ["Inqueue", "Pending", "Pending"]


def test_a_gang_with_a_bound_pod_is_not_sent_back():
    world = World(queues=[("q", {"capability": {"cpu": 20}})])
    world.group("part", 4, 4, priority=10, delay=None)
    world.step(2)
    part = objects.pod(["part-0", "part", "n1", 4, 0])
    world.cache.pod_changed(None, objects.edited(part, status={"phase": "Pending"}))
    world.group("high", 3, 4, priority=100)
    world.step(2)
    assert (world.phase("part"), world.phase("high")) == ("Inqueue", "Pending")


# -- pods beyond the minimum ---------------------------------------------------------------------------------------------


@TEXTS
@pytest.mark.parametrize(("nodes", "limit"), [(2, {}), (4, {"capability": {"cpu": 16}})], ids=["cluster", "queue"])
def test_pods_beyond_the_minimum_leave_the_room_of_a_gang_whose_pods_are_being_created(text, nodes, limit):
    world = World(nodes=nodes, text=text, queues=[("q", limit)])
    world.group("a", 2, 1, pods=16)
    world.group("b", 2, 1, pods=16)
    world.group("c", 2, 1, pods=16, delay=2)
    world.step(4 * PERIODS)
    assert world.running("c") >= 2
    assert sum(map(world.running, "abc")) == 16, "nothing stays empty"


def test_a_more_important_job_takes_the_free_room_for_all_its_pods():
    world = World(nodes=2)
    world.group("a", 2, 1, pods=16, priority=10)
    world.group("c", 2, 1, delay=PERIODS)
    assert world.step(3).running("a") == 16


@TEXTS
def test_a_gang_that_lacks_a_role_is_not_beyond_its_minimum(text):
    world = World(nodes=1, text=text)
    world.group("other", 2, 3, delay=None, phase="Inqueue", priority=10)
    roles = {"roles": {"a": 1, "b": 1}, "phase": "Inqueue", "minRes": {"cpu": 2}}
    pods = [[f"gang-{i}", "gang", "-", 1, 0, {"role": role}] for i, role in enumerate("aab")]
    feed(world.cache, {"podgroups": [["gang", "q", 2, roles]], "pods": pods})
    world.groups["gang"] = SimpleNamespace(name="gang", cpu=1, options={}, pods=3, created=3, after=False, delay=0)
    assert world.step().running("gang") == 3


@TEXTS
@pytest.mark.parametrize("limit", [{}, {"capability": {"cpu": 16, "memory": "10Gi"}}], ids=["none", "memory"])
def test_pods_that_fit_beside_the_promised_room_are_bound_while_other_pods_are_being_created(text, limit):
    world = World(nodes=2, text=text, queues=[("q", limit)])
    world.group("missing", 1, 8, delay=None)
    feed(world.cache, {"podgroups": [["here", "q", 1, {"phase": "Inqueue", "minRes": {"cpu": 1, "memory": "2Gi"}}]]})
    feed(world.cache, {"pods": [[f"here-{i}", "here", "-", 1, "2Gi"] for i in range(4)]})
    world.groups["here"] = SimpleNamespace(name="here", cpu=1, options={}, pods=4, created=4, after=False, delay=0)
    assert world.step(3).running("here") == 4


@pytest.mark.parametrize("gang", ["", "{name: gang}, "], ids=["without gangs", "gangs"])
def test_a_job_that_no_other_waits_beside_takes_its_minimum_first(gang):
    world = World(nodes=1, text=CAPACITY.replace("{name: gang}, ", gang))
    world.group("missing", 2, 3, delay=None, phase="Inqueue")
    world.group("elastic", 1, 1, pods=4, after=False)
    assert world.step().running("elastic") == 2


def test_a_gang_that_is_let_in_is_owed_no_more_than_its_pods_can_use():
    world = World(nodes=1)
    world.group("elastic", 1, 1, pods=4, after=False)
    world.group("greedy", 1, 4, res=8, after=False, priority=10, sel={"host": "nowhere"})
    assert world.step().running("elastic") == 4


def test_the_room_of_a_cordoned_node_covers_no_promise():
    world = World(nodes=1, text=CAPACITY)
    feed(world.cache, {"nodes": [["closed", 8, "64Gi", {"unschedulable": True}]]})
    world.group("missing", 2, 2, delay=None, phase="Inqueue")
    world.group("elastic", 1, 1, pods=8, after=False)
    assert world.step(2).running("elastic") == 4


# -- a started gang that lost pods ------------------------------------------------------------------------------------------


def with_gang(text=DEFAULT, *, nodes=4, **rival):
    """A gang of 4 on 4 nodes, and a rival for a whole node that waits. Each has a queue."""
    world = World(nodes, text=text, queues=[("q", {}), ("r", {})])
    world.group("gang", 4, 6)
    world.step(3)
    assert world.running("gang") == 4
    world.group("rival", 1, 6, **rival)
    world.step(3)
    return world


FAILED = {"phase": "Failed"}
RIVALS = {
    "of its queue": {},
    "of another queue": {"queue": "r"},
    "less important": {"priority": -5},
    "that is elastic": {"pods": 4},
}


@TEXTS
@pytest.mark.parametrize("rival", RIVALS.values(), ids=RIVALS)
@pytest.mark.parametrize(("status", "again"), [(None, 3), (FAILED, 4)], ids=["deleted", "failed"])
def test_the_place_of_a_lost_pod_is_kept_for_its_replacement(text, rival, status, again):
    world = with_gang(text, **rival)
    world.lose("gang", 3, status=status)
    world.step(3)
    assert "KeptForAnother: not now: a place is kept for pods that t/gang lost" in world.why("rival")
    world.come_again("gang", again)
    world.step(2)
    assert (world.facts("gang").tally[TaskStatus.RUNNING], world.running("rival")) == (4, 0)


def test_a_place_is_kept_for_a_limited_time():
    world = with_gang()
    world.lose("gang", 3)
    assert world.step(PERIODS - 1).running("rival") == 0
    assert world.step(3).running("rival") == 1
    assert world.memory["recovery.lost"].keys() == {"t/gang"}
    world.come_again("gang", 3)
    world.finish("rival")
    world.step(3)
    assert (world.running("gang"), world.memory["recovery.lost"]) == (4, {})


def test_a_place_is_kept_from_no_more_important_gang():
    world = with_gang()
    world.group("important", 1, 6, priority=5)
    world.step(2)
    world.lose("gang", 3)
    assert world.step(2).running("important") == 1


def test_a_replacement_goes_before_gangs_that_have_nothing():
    world = with_gang()
    closed = [["n3", 8, "64Gi", {"unschedulable": True}]]
    lost = next(int(task.name[-1]) for task in world.tasks("gang") if task.node == "n3")
    feed(world.cache, {"nodes": closed})
    world.lose("gang", lost)
    world.come_again("gang", lost)
    world.step(2 * PERIODS)
    feed(world.cache, {"nodes": [["n3", 8, "64Gi", {}]]})
    world.step(2)
    assert (world.running("gang"), world.running("rival")) == (4, 0)


def test_the_place_of_a_lost_node_is_kept_elsewhere():
    world = with_gang(nodes=5)
    assert world.running("rival") == 1
    lost = next(task for task in world.tasks("gang"))
    world.group("further", 1, 6)
    feed(world.cache, {"nodes": [[lost.node, 8, "64Gi", {"unschedulable": True}]]})
    world.lose("gang", int(lost.name[-1]))
    world.finish("rival")
    assert world.step(2).running("further") == 0
    world.come_again("gang", int(lost.name[-1]))
    assert world.step(2).running("gang") == 4


def test_a_gang_that_lost_all_pods_keeps_no_place():
    world = with_gang()
    world.lose("gang", 0, 1, 2, 3)
    assert world.step(2).running("rival") == 1


def test_after_a_restart_living_members_say_what_a_lost_one_asks_for():
    world = with_gang()
    facts = world.facts("gang")
    group = facts.group
    spec = msgspec.structs.replace(group.spec, min_task_member={"": 4})
    tasks = facts.tasks[:3]
    (lost,) = lost_members(msgspec.structs.replace(group, spec=spec), JobFacts.of(group, tasks).tally, tasks, ())
    assert lost.shape is facts.tasks[3].shape


# -- histories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60 // ONE_IN or 1))
def test_no_promise_outlives_its_patience_and_none_keeps_a_more_important_gang_waiting(seed):
    chance = random.Random(seed)
    limit = {"capability": {"cpu": 20}} if seed % 3 else {}
    world = World(text=CAPACITY if seed % 2 else DEFAULT, queues=[("q", limit), ("r", {})])
    since = {}
    for number in range(50):
        if chance.random() < 0.6:
            minimum, cpu = chance.randint(1, 5), chance.choice([1, 2, 4, 7, 9])
            options = chance.choice([{}, {}, {}, {"sel": {"host": "n1"}}, {"sel": {"host": "nowhere"}}, {"pvc": ["missing"]}])
            world.group(
                f"g{number}",
                minimum,
                cpu,
                pods=minimum + chance.choice([0, 0, 3]),
                queue=chance.choice("qr"),
                priority=chance.choice([0, 0, 5, 10]),
                after=chance.random() < 0.7,
                delay=chance.choice([0, 0, 0, 1, 3, None]),
                **options,
            )
        for name in list(world.groups):
            if world.running(name) and chance.random() < 0.1:
                world.finish(name)
            elif chance.random() < 0.02:
                world.delete(name)
            elif world.phase(name) == "Completed" and chance.random() < 0.3:
                world.groups[name].delay = None
                world.remove_pods(name)
            elif chance.random() < 0.1 and world.groups[name].created:
                is_lost = not any(task.name == f"{name}-0" for task in world.tasks(name))
                (world.come_again if is_lost else world.lose)(name, 0)
        world.step()
        check(world, since)
    for name in list(world.groups):
        world.groups[name].delay = None
    for _ in range(8 * PERIODS):
        world.step()
        check(world, since)


def check(world, since):
    view = world.cache.view()
    for name in list(world.groups):
        facts = view.all_jobs[f"t/{name}"]
        has_started = any(facts.tally[status] for status in READY)
        state = (str(facts.phase), facts.tally.valid, has_started)
        before, _ = since.get(name, (None, 0))
        if before != state:
            since[name] = (state, world.period)
        wait = world.memory.get("promises.waits", {}).get(f"t/{name}")
        is_over = f"t/{name}" in world.memory.get("promises.over", {}) or (
            wait is not None and world.period - wait >= PERIODS - 1
        )
        if facts.promise.whole and not has_started and not is_over:
            assert world.period - since[name][1] <= 2 * PERIODS, (name, facts.promise)
    for facts in view.all_jobs.values():
        since["late", facts.key] = since.get(("late", facts.key), 0) + 1 if is_kept_out(view, facts) else 0
        assert since["late", facts.key] <= 3, (facts.key, facts.group.status.conditions)


def is_kept_out(view, facts):
    """Whether a gang waits that would fit into the cluster if no less important gang that has not started were promised room."""
    says = next((each.message for each in facts.group.status.conditions if each.type == "Unschedulable"), "")
    if str(facts.phase) != "Pending" or "ClusterFull: not now" not in says:
        return False
    lower = [
        other
        for other in view.promised
        if other.priority < facts.priority
        and str(other.phase) == "Inqueue"
        and not any(other.tally[status] for status in (*READY, TaskStatus.RELEASING))
    ]
    freed = sum(other.promise.whole.get("cpu", 0) for other in lower)
    kept = sum(sums.inqueue_whole[0] for sums in view.queue_sums.values()) - freed
    limit, sums = (view.queues[facts.queue].capability or {}).get("cpu", 1e9), view.queue_sums[facts.queue]
    of_queue = sum(other.promise.whole.get("cpu", 0) for other in lower if other.queue == facts.queue)
    if sums.allocated[0] + sums.inqueue[0] - sums.elastic[0] - of_queue + facts.min_resources["cpu"] > limit:
        return False
    return view.columns.used[0].sum() + kept + facts.min_resources["cpu"] <= view.total[0]
