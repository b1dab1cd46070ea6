"""Jobs that wait for claims look again when these may be met, and at nothing else."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.triggers import (
    AnyChange,
    ClaimRelease,
    DeviceRelease,
    ObjectChange,
    Pause,
    QueueChange,
    QueueUse,
    Room,
)
from tests.scenarios import claims, objects, storage
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, one_tier
from tests.unit.scheduler.session.test_unschedulable import World

PLUGINS = ("priority", "gang", "predicates", "nodeorder")
DRIVER = "gpu.example.com"
SINGLE = ["ReadWriteOncePod"]


def is_now(world, new):
    """An object comes or changes."""
    old = world.cache.objects.get(type(new), str(new.key))
    world.cache.object_changed(old, new)


def is_gone(world, record, name):
    world.cache.object_changed(world.cache.objects.get(record, name), None)


def made(plugins=PLUGINS, **queue):
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
    world = made()
    is_now(world, storage.volume("v", {"claim": "c", "modes": SINGLE}))
    is_now(world, storage.claim("c", {"modes": SINGLE, "volume": "v"}))
    world.job("runs", 1, where="m", pvc=["c"])
    world.job("j", 9, pvc=["c"])
    return world


def missing_claim():
    world = made()
    world.job("j", 1, pvc=["c"])
    return world


def no_volume():
    """The claim of `j` may have a volume of class `late`, and there is none."""
    world = made()
    is_now(world, storage.claim("c", {"class": "late"}))
    world.job("j", 1, pvc=["c"])
    return world


def device_is_taken():
    """A claim that nobody uses any more has the only device."""
    world = made()
    is_now(world, claims.claim("taken", {"class": "gpu", "has": ["n", DRIVER, "d0"]}))
    is_now(world, claims.claim("c", {"class": "gpu"}))
    world.job("j", 9, claim="c")
    return world


def queue_has_its_device():
    """`runs` has the only device that the queue may have, and another one is free."""
    world = made((*PLUGINS, "capacity"), capability={"deviceclass/gpu": 1})
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


def pods_start(world):
    old = world.cache.tasks["t-stranger-0"].pod
    world.cache.pod_changed(old, objects.edited(old, metadata={"labels": {**old.metadata.labels, "seen": "now"}}))


def job_comes(world):
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
DEVICES = {DEVICE_CLAIM, ClaimRelease(), DeviceRelease(), ObjectChange(records.ResourceSlice), ObjectChange(records.DeviceClass)}
ELSEWHERE = (pods_start, job_comes, other_claims_change)
CASES = {
    "a claim of another pod": (
        claim_of_one_pod,
        {VOLUME_CLAIM, ObjectChange(records.PersistentVolume, "v"), ClaimRelease()},
        lambda world: world.goes("runs-0"),
        (*ELSEWHERE, other_volumes_change),
    ),
    "a claim that is missing": (missing_claim, {VOLUME_CLAIM}, claim_comes, (*ELSEWHERE, other_volumes_change)),
    "a volume": (
        no_volume,
        UNBOUND,
        lambda world: is_now(world, storage.volume("v", {"class": "late"})),
        ELSEWHERE,
    ),
    "a device": (device_is_taken, DEVICES, device_is_given_back, (*ELSEWHERE, other_volumes_change)),
    "the devices of its queue": (
        queue_has_its_device,
        {DEVICE_CLAIM, DeviceRelease(), QueueUse("q")},
        lambda world: world.goes("runs-0"),
        (pods_start,),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_waiting_for_a_claim_names_its_retry_triggers_and_is_bound_when_one_occurs(case):
    make, triggers, helps, _ = CASES[case]
    world = make()
    found = world.settled()["j"].retry_when
    assert {each for each in found if not isinstance(each, Room)} - {QueueChange("q")} == triggers
    helps(world)
    assert "t-j-0" in world.session()[0]


@pytest.mark.parametrize(("case", "at"), [(case, at) for case, found in CASES.items() for at in range(len(found[3]))])
def test_a_job_waiting_for_a_claim_is_not_retried_by_unrelated_changes(case, at):
    make, _, _, others = CASES[case]
    assert "j" not in make().looked_at_after(others[at])


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
