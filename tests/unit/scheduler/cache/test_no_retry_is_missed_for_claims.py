"""Jobs at rest miss nothing of claims: volumes and devices that come, go, are taken, given back, and are limited."""

import random

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler.cache.objects import merged
from tests.counts import ONE_IN
from tests.scenarios import claims, objects, storage

from .test_no_retry_is_missed import MOST_JOBS, NODES, World, walk

WORLDS = {
    "filling": ("allocate", "proportion"),
    "quotas of devices": ("allocate", "capacity"),
    "preempting": ("allocate, preempt", "capacity"),
    "reclaiming": ("allocate, preempt, reclaim", "proportion"),
}
CLASSES = {
    "local": {"mode": "WaitForFirstConsumer"},
    "made": {"mode": "WaitForFirstConsumer", "provisioner": "csi.example.com"},
    "soon": {"mode": "Immediate", "provisioner": "csi.example.com"},
}
DRIVER = "gpu.example.com"
SINGLE = ["ReadWriteOncePod"]


class ClaimWorld(World):
    """A world in which pods have claims, some of which are not there yet, and binds fail at times."""

    def __init__(self, random_, actions, quota):
        self.known = {}
        self.is_bad_day = False
        super().__init__(random_, actions, is_mixed=True, quota=quota)
        for name, given in CLASSES.items():
            self.is_now(storage.storage_class(name, given))
        self.is_now(claims.device_class("gpu", f'device.driver == "{DRIVER}"'))
        for i in range(NODES):
            self.slice_changes(i)
            self.limit_changes(i)

    def is_now(self, new, old=None):
        """An object comes, changes, or goes (None)."""
        record = old if new is None else new
        slot = type(record), str(record.key)
        known = self.known.pop(slot, None)
        if new is not None:
            self.known[slot] = new
        changed = self.cache.node_object_changed if isinstance(record, records.CsiNode) else self.cache.object_changed
        changed(known, new)

    def of(self, kind):
        return [each for (found, _), each in sorted(self.known.items(), key=lambda pair: pair[0][1]) if found is kind]

    def manners(self, name):
        options, annotations = super().manners(name)
        chance = self.random.random()
        options.pop("pvc", None)
        if chance < 0.25:
            options["claim"] = f"devices-{name}"
        elif chance < 0.65:
            options["pvc"] = [self.random.choice((f"own-{name}", "shared", "single"))]
        if chance < 0.65 and self.random.random() < 0.7:
            self.claims_come(options)
        return options, annotations

    def claims_come(self, options):
        """The claims of a Job that are not there yet."""
        name = options.get("claim")
        if name and (records.ResourceClaim, f"{objects.NAMESPACE}/{name}") not in self.known:
            self.is_now(claims.claim(name, {"class": "gpu", "count": self.random.choice((1, 1, 2))}))
        for name in options.get("pvc", ()):
            if (records.PersistentVolumeClaim, f"{objects.NAMESPACE}/{name}") not in self.known:
                modes = SINGLE if name == "single" else ["ReadWriteOnce"]
                kind = self.random.choice((*CLASSES, "bound"))
                given = {"class": kind, "modes": modes}
                if kind == "bound":
                    given |= {"volume": f"pv-{name}", "class": ""}
                    self.volume_comes(f"pv-{name}", claim=name, modes=modes)
                self.is_now(storage.claim(name, given))

    def volume_comes(self, name, **given):
        if self.random.random() < 0.5:
            given["nodes"] = [f"n{self.random.randrange(NODES)}" for _ in range(2)]
        if self.random.random() < 0.8:
            given["driver"] = "csi.example.com"
        self.is_now(storage.volume(name, given))

    def claims_missing(self):
        """Claims come that some Jobs lack."""
        for row in self.random.sample(sorted(self.pods.values(), key=lambda row: row[0]), min(3, len(self.pods))):
            self.claims_come(row[5])

    def volumes_change(self):
        """A volume for anybody comes or goes; a claim that is bound at once gets its volume."""
        name = f"pv{self.random.randrange(3)}"
        known = self.known.get((records.PersistentVolume, name))
        if known is None:
            self.volume_comes(name, **{"class": "local", "modes": ["ReadWriteOnce", *SINGLE]})
        elif known.spec.claim_ref is None:
            self.is_now(None, known)
        for each in self.of(records.PersistentVolumeClaim):
            if each.spec.storage_class_name == "soon" and not each.spec.volume_name and self.random.random() < 0.5:
                self.bound_to(each, f"made-{each.metadata.name}")

    def bound_to(self, claim, volume):
        name = claim.metadata.name
        if (records.PersistentVolume, volume) not in self.known:
            self.volume_comes(volume, claim=name, modes=claim.spec.access_modes)
        self.is_now(
            storage.claim(name, {"class": claim.spec.storage_class_name, "modes": claim.spec.access_modes, "volume": volume})
        )

    def slice_changes(self, at=None):
        at = self.random.randrange(NODES) if at is None else at
        names = [f"d{i} {DRIVER}" for i in range(self.random.randint(0, 3))]
        name = f"n{at}-{DRIVER}"
        if not names:
            known = self.known.get((records.ResourceSlice, name))
            if known is not None:
                self.is_now(None, known)
            return
        for each in claims.of({"devices": {f"n{at}": names}}):
            self.is_now(each)

    def limit_changes(self, at=None):
        at = self.random.randrange(NODES) if at is None else at
        for each in storage.of({"csiNodes": {f"n{at}": {"csi.example.com": self.random.randint(1, 3)}}}):
            self.is_now(each)

    def class_changes(self):
        """The class of devices selects none, or those of the driver again."""
        which = self.random.choice((DRIVER, DRIVER, "other.example.com"))
        self.is_now(claims.device_class("gpu", f'device.driver == "{which}"'))

    def devices_are_given_back(self):
        """Claims that no pod uses any more lose their devices; those of Jobs that are gone go too."""
        users = {row[5].get("claim") for row in self.pods.values() if row[2] != "-"}
        wanted = {row[5].get("claim") for row in self.pods.values()}
        for each in self.of(records.ResourceClaim):
            name = each.metadata.name
            if name not in wanted:
                self.is_now(None, each)
            elif name not in users and each.status.allocation is not None:
                self.is_now(msgspec.structs.replace(each, status=msgspec.convert({}, type(each.status))))

    def queue_changes(self):
        name = self.random.choice(("a", "b"))
        old = self.cache.queues[name].record
        limits = [None, {"cpu": 12}, {"deviceclass/gpu": 1}, {"deviceclass/gpu": 2, "cpu": 16}]
        options = {"weight": self.random.randint(1, 5), "capability": self.random.choice(limits)}
        self.cache.queue_changed(old, objects.queue([name, options]))

    def node_is(self, name, cpu):
        super().node_is(name, 8 * cpu)  # it is for claims that Jobs wait here, and seldom for room

    def change(self):
        if self.random.random() < 0.1:
            super().change()
            return
        claims_change = [self.claims_missing, self.volumes_change, self.slice_changes, self.limit_changes, self.class_changes]
        leave = [self.pod_goes] * 2 + [self.job_goes] * (1 if len(self.jobs) < MOST_JOBS else 6)
        self.random.choice([*claims_change, *leave, *[self.devices_are_given_back] * 3, *[self.jobs_come] * 3])()

    def _is_bound(self, uid, node, preparations):
        """What is written is there now, or nothing of it, and the pod waits again."""
        writes = [write for each in preparations for write in each.writes if write.record is not None]
        if self.random.random() < 0.1:
            for each in writes:
                self.cache.objects.promise(each.record, str(each.key), each.patch)
            for each in writes:
                self.cache.object_released(each.record, str(each.key), each.patch)
            self.cache.pods.forget(uid)
            return
        for each in writes:
            known = self.known[each.record, str(each.key)]
            body = msgspec.to_builtins(known)
            self.is_now(msgspec.convert(merged(body, each.patch), each.record, strict=False))
        super()._is_bound(uid, node, preparations)
        for name in self.pods[uid.removeprefix("t-")][5].get("pvc", ()):
            claim = self.known.get((records.PersistentVolumeClaim, f"{objects.NAMESPACE}/{name}"))
            if claim is not None and not claim.spec.volume_name:
                kept = (each for each in self.of(records.PersistentVolume) if each.spec.claim_ref is not None)
                found = next((each.metadata.name for each in kept if each.spec.claim_ref.name == name), f"made-{name}")
                self.bound_to(claim, found)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", range(8 // ONE_IN))
def test_a_session_over_retried_jobs_with_claims_decides_the_same_as_one_over_all_jobs(name, seed):
    assert walk(ClaimWorld(random.Random(seed), *WORLDS[name]), 15)


@pytest.mark.soak
@pytest.mark.parametrize("name", WORLDS)
def test_a_session_over_retried_jobs_with_claims_decides_the_same_in_200000_random_steps(name):
    for seed in range(1000):
        walk(ClaimWorld(random.Random(1000 + seed), *WORLDS[name]), 50)
