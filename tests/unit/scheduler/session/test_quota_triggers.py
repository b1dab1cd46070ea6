"""Jobs that a quota keeps waiting, or a part of the network, look again when that may have changed, and at nothing else."""

from types import SimpleNamespace

import pytest

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.triggers import AnyChange, AnyRoom, QueueChange, QueueUse, Room
from pyroclast_scheduler.session.extension_points import Extensions, Vote
from pyroclast_scheduler.session.rules import Rules
from tests.scenarios import objects
from tests.unit.scheduler.deciding import one_tier
from tests.unit.scheduler.session.test_unschedulable import World

CAPACITY = ("priority", "gang", "predicates", "capacity", "nodeorder")
PROPORTION = ("priority", "gang", "predicates", "proportion", "nodeorder")


def quota(used):
    return objects.resource_quota({"cpu": 4}, {"cpu": used})


def job_in(world, queue, name, cpu, *, where="-", **group):
    world.cache.group_changed(None, objects.pod_group([name, queue, 1, {"phase": "Inqueue", **group}]))
    world.cache.pod_changed(None, objects.pod([f"{name}-0", name, where, cpu, "1Gi", {}]))


def full_queue(plugins, *, j):
    """Queue q has all that it may have, 2 of 100 cpu, by the job `runs`; one node has room for everybody; `j` waits in q."""
    world = World(plugins=plugins)
    world.queue("q", capability={"cpu": 2})
    world.queue("r")
    world.node("n", 100)
    world.cache.priority_changed(None, objects.priority_class(1))
    job_in(world, "q", "runs", 2, where="n", minRes={"cpu": 2})
    job_in(world, "r", "stranger", 1, where="n")
    job_in(world, "q", "j", 2, **j)
    return world


def full_cluster():
    """The cluster may promise 12 of its 10 cpu: `runs` has 8, and `j` asks for 5."""
    world = World(plugins=("priority", "gang", "predicates", "overcommit", "nodeorder"))
    world.queue("r")
    world.node("n", 10)
    job_in(world, "q", "runs", 8, where="n")
    job_in(world, "r", "stranger", 1, where="n")
    job_in(world, "q", "j", 5, phase="Pending", minRes={"cpu": 5})
    return world


def full_namespace():
    """Its ResourceQuota leaves nothing to `j`."""
    world = World(plugins=("priority", "gang", "predicates", "resourcequota", "nodeorder"))
    world.queue("r")
    world.node("n", 100)
    world.cache.object_changed(None, quota("4"))
    job_in(world, "q", "runs", 2, where="n")
    job_in(world, "r", "stranger", 1, where="n")
    job_in(world, "q", "j", 2, phase="Pending", minRes={"cpu": 2})
    return world


def full_part():
    """`j` must be in one part of the network, where `runs` has the room."""
    world = World(plugins=("priority", "gang", "predicates", "network-topology-aware"))
    world.queue("r")
    world.node("n", 2)
    world.node("m", 2)
    world.cache.object_changed(None, objects.hyper_node("h", 1, ["n"], {}))
    job_in(world, "q", "runs", 2, where="n")
    job_in(world, "r", "stranger", 1, where="m")
    job_in(world, "q", "j", 2, topo=["hard", 1])
    return world


def place_goes(world):
    world.goes("runs-0")


def namespace_gets_room(world):
    world.cache.object_changed(quota("4"), quota("1"))


def pods_start(world):
    for name in ("runs-0", "stranger-0"):
        pod = world.cache.tasks[f"t-{name}"].pod
        world.cache.pod_changed(pod, objects.edited(pod, status={"phase": "Running"}))


def place_goes_elsewhere(world):
    world.goes("stranger-0")


def job_comes_elsewhere(world):
    job_in(world, "r", "other", 1)


def job_comes(world):
    job_in(world, "q", "other", 9)


PENDING = {"phase": "Pending", "minRes": {"cpu": 2}}
ELSEWHERE = (pods_start, place_goes_elsewhere, job_comes_elsewhere)
CASES = {
    "the limit of its queue": (lambda: full_queue(CAPACITY, j={}), {QueueUse("q")}, place_goes, ELSEWHERE),
    "what its queue deserves": (lambda: full_queue(PROPORTION, j={}), {QueueUse()}, place_goes, (pods_start,)),
    "capacity does not let it in": (lambda: full_queue(CAPACITY, j=PENDING), {QueueUse("q")}, place_goes, ELSEWHERE),
    "proportion does not let it in": (lambda: full_queue(PROPORTION, j=PENDING), {QueueUse("q")}, place_goes, ELSEWHERE),
    "the cluster is promised": (full_cluster, {AnyRoom(), QueueUse()}, place_goes, (pods_start,)),
    "its namespace is full": (full_namespace, set(), namespace_gets_room, (*ELSEWHERE, place_goes)),
    "its part of the network is full": (full_part, {AnyRoom()}, place_goes, (pods_start, job_comes_elsewhere, job_comes)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_waiting_for_a_quota_names_its_retry_triggers_and_is_retried_when_one_occurs(case):
    made, triggers, helps, _ = CASES[case]
    world = made()
    assert world.settled()["j"].retry_when - {QueueChange("q")} == triggers
    helps(world)
    assert "j" in world.looked_at()
    assert world.cache.groups.current("t/j").status.phase == "Inqueue"


@pytest.mark.parametrize(("case", "at"), [(case, at) for case, found in CASES.items() for at in range(len(found[3]))])
def test_a_job_waiting_for_a_quota_is_not_retried_by_unrelated_changes(case, at):
    made, _, _, others = CASES[case]
    assert "j" not in made().looked_at_after(others[at])


@pytest.mark.parametrize("plugins", [CAPACITY, PROPORTION])
def test_a_job_that_queue_and_nodes_refuse_is_retried_when_nodes_have_room(plugins):
    world = full_queue(plugins, j={})
    world.node("n", 3)
    rest = world.settled()["j"]
    assert {type(each) for each in rest.retry_when} == {Room}
    world.goes("stranger-0")
    assert "j" not in world.looked_at(), "the node has room for one cpu only"
    world.node("n", 5)
    _, rests, _ = world.session()
    assert QueueUse in {type(each) for each in rests["j"].retry_when}, "now only its queue has no room"
    world.goes("runs-0")
    assert world.session()[0] == {"t-j-0": "n"}


def test_a_job_that_queue_and_nodes_refuse_still_waits_for_its_queue_if_actions_evict():
    world = full_queue(PROPORTION, j={})
    world.configuration = one_tier(PROPORTION, "enqueue, allocate, preempt")
    world.node("n", 3)
    assert {QueueUse} < {type(each) for each in world.settled()["j"].retry_when}


def test_a_failed_bind_retries_jobs_waiting_for_the_limit_of_its_queue():
    world = full_queue(CAPACITY, j={})
    world.settled()
    world.goes("runs-0")
    job_in(world, "q", "first", 2, **{"class": 1})
    binds, rests, _ = world.session()
    assert binds == {"t-first-0": "n"}
    assert rests["j"].retry_when == {QueueUse("q")}
    world.cache.pods.forget("t-first-0")
    assert "j" in world.looked_at()


def test_a_job_limited_by_an_ancestor_queue_is_retried_when_a_sibling_queue_frees_resources():
    world = World(plugins=("priority", "gang", "predicates", "capacity, enableHierarchy: true", "nodeorder"))
    world.queue("root")
    world.queue("top", capability={"cpu": 4}, parent="root")
    for name in ("a", "b"):
        world.queue(name, parent="top")
    world.queue("c", parent="root")
    world.node("n", 100)
    job_in(world, "a", "runs", 4, where="n")
    job_in(world, "c", "stranger", 1, where="n")
    job_in(world, "b", "j", 2)
    assert world.settled()["j"].retry_when == {QueueUse("top")}
    world.goes("stranger-0")
    assert "j" not in world.looked_at()
    world.goes("runs-0")
    assert "j" in world.looked_at()


@pytest.mark.parametrize("is_told", [False, True])
def test_any_change_retries_a_job_refused_by_a_plugin_without_declared_triggers(is_told):
    refused = SimpleNamespace(cause=Cause(PendingReason.QUEUE_FULL, str, retry_when=frozenset({QueueUse("q")})))
    want = {QueueUse("q")} if is_told else {AnyChange()}
    when = (lambda _job, _tasks: (QueueUse("q"),)) if is_told else None
    quota = Rules([[Extensions(allocatable=lambda _queue, _plan, _count: 0, quota_retry_when=when)]])
    assert quota.quota_retry_when(refused, ()) == want
    votes = Rules([[Extensions(job_enqueueable=lambda _job: Vote.REJECT, is_enqueue_told=is_told)]])
    assert votes.enqueue_retry_when(refused) == want
