"""Jobs that wait for a quota, a part of the network or claims look again when these may be met, and at nothing else."""

from types import SimpleNamespace

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.triggers import (
    AnyChange,
    AnyRoom,
    ClaimRelease,
    DeviceRelease,
    ObjectChange,
    Pause,
    QueueChange,
    QueueUse,
    Room,
)
from pyroclast_scheduler.session.extension_points import Extensions, Vote
from pyroclast_scheduler.session.rules import Rules
from tests.scenarios import claims, objects, storage
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, one_tier
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


PLUGINS = ("priority", "gang", "predicates", "nodeorder")
DRIVER = "gpu.example.com"
SINGLE = ["ReadWriteOncePod"]


def is_now(world, new):
    """An object comes or changes."""
    old = world.cache.objects.get(type(new), str(new.key))
    world.cache.object_changed(old, new)


def is_gone(world, record, name):
    world.cache.object_changed(world.cache.objects.get(record, name), None)


def with_devices(plugins=PLUGINS, **queue):
    world = World(plugins=plugins)
    world.queue("q", **queue)
    world.node("n", 100)
    world.node("m", 1)  # has room for no pod of `j`, so that it is not room for which it is woken
    for each in claims.of({"devices": {"n": [f"d0 {DRIVER}"]}, "deviceClasses": {"gpu": f'device.driver == "{DRIVER}"'}}):
        is_now(world, each)
    is_now(world, storage.storage_class("late", {"mode": "WaitForFirstConsumer"}))
    world.job("stranger", 1, where="n")
    return world


def claim_of_one_pod():
    """`j` asks for a claim that is for one pod alone, and `runs` has it."""
    world = with_devices()
    is_now(world, storage.volume("v", {"claim": "c", "modes": SINGLE}))
    is_now(world, storage.claim("c", {"modes": SINGLE, "volume": "v"}))
    world.job("runs", 1, where="m", pvc=["c"])
    world.job("j", 9, pvc=["c"])
    return world


def missing_claim():
    world = with_devices()
    world.job("j", 1, pvc=["c"])
    return world


def no_volume():
    """The claim of `j` may have a volume of class `late`, and there is none."""
    world = with_devices()
    is_now(world, storage.claim("c", {"class": "late"}))
    world.job("j", 1, pvc=["c"])
    return world


def device_is_taken():
    """A claim that nobody uses any more has the only device."""
    world = with_devices()
    is_now(world, claims.claim("taken", {"class": "gpu", "has": ["n", DRIVER, "d0"]}))
    is_now(world, claims.claim("c", {"class": "gpu"}))
    world.job("j", 9, claim="c")
    return world


def queue_has_its_device():
    """`runs` has the only device that the queue may have, and another one is free."""
    world = with_devices((*PLUGINS, "capacity"), capability={"deviceclass/gpu": 1})
    is_now(world, claims.claim("taken", {"class": "gpu", "has": ["m", DRIVER, "d1"]}))
    is_now(world, claims.claim("c", {"class": "gpu"}))
    world.job("runs", 1, where="m", claim="taken")
    world.job("j", 9, claim="c")
    return world


def claim_comes(world):
    is_now(world, storage.volume("v", {"claim": "c"}))
    is_now(world, storage.claim("c", {"volume": "v"}))


def device_is_given_back(world):
    is_now(world, claims.claim("taken", {"class": "gpu"}))


def a_pod_changes(world):
    old = world.cache.tasks["t-stranger-0"].pod
    world.cache.pod_changed(old, objects.edited(old, metadata={"labels": {**old.metadata.labels, "seen": "now"}}))


def another_job_comes(world):
    world.job("other", 1)


def other_claims_change(world):
    is_now(world, storage.claim("other", {}))
    is_now(world, storage.claim("other", {"phase": "Lost"}))
    is_now(world, claims.claim("other", {"class": "gpu"}))
    is_now(world, claims.claim("other", {"class": "gpu", "has": ["m", DRIVER, "d1"]}))


def other_volumes_change(world):
    is_now(world, storage.volume("other", {"class": "soon"}))


VOLUME_CLAIM = ObjectChange(records.PersistentVolumeClaim, "t/c")
UNBOUND = {
    VOLUME_CLAIM,
    ClaimRelease(),
    ObjectChange(records.PersistentVolume),
    ObjectChange(records.StorageClass),
    ObjectChange(records.CsiDriver),
    ObjectChange(records.CsiStorageCapacity),
}
DEVICE_CLAIM = ObjectChange(records.ResourceClaim, "t/c")
OF_DEVICES = (records.ResourceSlice, records.DeviceClass, records.DeviceTaintRule)
DEVICES = {DEVICE_CLAIM, ClaimRelease(), DeviceRelease(), *map(ObjectChange, OF_DEVICES)}
CHANGES_ELSEWHERE = (a_pod_changes, another_job_comes, other_claims_change)
CLAIM_CASES = {
    "a claim of another pod": (
        claim_of_one_pod,
        {VOLUME_CLAIM, ObjectChange(records.PersistentVolume, "v"), ClaimRelease()},
        lambda world: world.goes("runs-0"),
        (*CHANGES_ELSEWHERE, other_volumes_change),
    ),
    "a claim that is missing": (missing_claim, {VOLUME_CLAIM}, claim_comes, (*CHANGES_ELSEWHERE, other_volumes_change)),
    "a volume": (
        no_volume,
        UNBOUND,
        lambda world: is_now(world, storage.volume("v", {"class": "late"})),
        CHANGES_ELSEWHERE,
    ),
    "a device": (device_is_taken, DEVICES, device_is_given_back, (*CHANGES_ELSEWHERE, other_volumes_change)),
    "the devices of its queue": (
        queue_has_its_device,
        {DEVICE_CLAIM, DeviceRelease(), QueueUse("q")},
        lambda world: world.goes("runs-0"),
        (a_pod_changes,),
    ),
}


@pytest.mark.parametrize("case", CLAIM_CASES)
def test_a_job_waiting_for_a_claim_names_its_retry_triggers_and_is_bound_when_one_occurs(case):
    make, triggers, helps, _ = CLAIM_CASES[case]
    world = make()
    found = world.settled()["j"].retry_when
    assert {each for each in found if not isinstance(each, Room)} - {QueueChange("q")} == triggers
    helps(world)
    assert "t-j-0" in world.session()[0]


NO_HELP = {f"{name}: {other.__name__}": (case[0], other) for name, case in (CASES | CLAIM_CASES).items() for other in case[3]}


@pytest.mark.parametrize(("made", "other"), NO_HELP.values(), ids=NO_HELP)
def test_a_waiting_job_is_not_retried_by_unrelated_changes(made, other):
    assert "j" not in made().looked_at_after(other)


def test_a_device_is_free_again_after_the_write_of_its_claim_is_abandoned():
    world = device_is_taken()
    device_is_given_back(world)
    patch = {
        "status": {"allocation": {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": "d0"}]}}}
    }
    world.cache.objects.promise(records.ResourceClaim, "t/taken", patch)
    assert AnyChange() not in world.settled()["j"].retry_when
    assert not world.session()[0]
    world.cache.object_released(records.ResourceClaim, "t/taken", patch)
    assert "t-j-0" in world.session()[0]


WORKING = {
    "nothing shows that it works": (None, 20.0),
    "a CSIDriver": (msgspec.convert({"metadata": {"name": "x.io/absent"}}, records.CsiDriver), 600.0),
    "a node with the driver": (next(storage.of({"csiNodes": {"n": {"x.io/absent": 9}}})), 600.0),
    "a volume that it made": (storage.volume("v", {"driver": "x.io/absent", "class": "other"}), 600.0),
}


@pytest.mark.parametrize(("shown", "patience"), WORKING.values(), ids=WORKING)
def test_a_pod_gives_its_room_back_soon_if_nobody_provisions_its_volume(shown, patience):
    cache, memory = Cache(), {}
    feed(cache, {"nodes": [["n", 8, "9Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1, {"phase": "Inqueue"}]]})
    cache.object_changed(None, storage.storage_class("c", {"provisioner": "x.io/absent"}))
    cache.object_changed(None, storage.claim("c", {"class": "c"}))
    if shown is not None:
        cache.object_changed(None, shown)
    cache.pod_changed(None, objects.pod(["p", "j", "-", 6, 0, {"pvc": ["c"]}]))

    def session(after):
        outcome, commits = committed(cache, one_tier(PLUGINS), now=objects.NOW + after, memory=memory)
        preparations = [each for commit in commits for binds in commit.binds for each in binds.preparations["t-p"]]
        return [wait.patience for each in preparations for wait in each.awaits], outcome

    assert session(0)[0] == [patience]
    again, outcome = session(20)
    if shown is None:
        said = pending.parted(outcome.statuses["t/j"].conditions[-1].message)[1]
        assert said.startswith('NodesRefuse: not now: no node takes p: 1 node(s) got no volume for persistentvolumeclaim "c"')
        cache.groups.believe("t/j", outcome.statuses["t/j"])
        assert Pause(20) in session(20)[1].unschedulable[0].retry_when
        assert [session(at)[0] for at in (39, 40, 61, 99, 100)] == [[], [20.0], [], [], [20.0]]
    else:
        assert again == [patience]
