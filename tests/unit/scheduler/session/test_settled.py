"""Nothing is missed: once a cache has settled, no session over all jobs, or over a cache made anew, decides more."""

import random
from collections import defaultdict
from dataclasses import replace
from itertools import chain, count

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.changes import Rooms
from pyroclast_scheduler.cache.reads import ReadObjects
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.ports import Ports
from tests.counts import ONE_IN
from tests.scenarios import objects
from tests.scenarios.taking import take_rests

ACTIONS, PLUGINS = registry.actions(), registry.plugins()
FILLING = "enqueue, allocate, backfill"
EVERYTHING = (  # but what goes by time, and what asks outside
    "priority gang conformance pdb sla overcommit drf predicates capacity nodeorder binpack numa-aware task-topology "
    'network-topology-aware resourcequota deviceshare resource-strategy-fit cdp nodegroup,"arguments":{"strict":false}'
)
CONFIGURATIONS = {
    "default": (FILLING, "priority gang conformance overcommit drf predicates proportion nodeorder binpack"),
    "no gang": ("allocate, backfill", "priority predicates nodeorder"),
    "capacity": (FILLING, "priority gang predicates capacity nodeorder"),
    "branches": (FILLING, 'priority gang predicates capacity,"enableHierarchy":true nodeorder'),
    "namespace": (FILLING, "priority gang overcommit predicates resourcequota proportion nodeorder"),
    "network": (FILLING, "priority gang predicates network-topology-aware nodeorder"),
    "taking": ("enqueue, allocate, preempt, reclaim, backfill", "priority gang conformance drf predicates proportion nodeorder"),
    "everything": (FILLING, EVERYTHING),
    "everything, evicting": (f"{FILLING}, preempt, reclaim, gangpreempt, gangreclaim", EVERYTHING),
}
HANDLERS = {records.Queue: "queue", records.Node: "node", records.Pod: "pod", records.PodGroup: "group"}


def made(record, name, *, namespace="t", **parts):
    metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, **parts}, record)


class World:
    """A small cluster in which things come, change and go; `shown` is what its API server shows, by kind and key."""

    def __init__(self, seed, name):
        self.random, self.numbers, self.cache, self.shown = random.Random(seed), count(1), Cache(), defaultdict(dict)
        actions, plugins = CONFIGURATIONS[name]
        text = f"actions: '{actions}'\ntiers: [plugins: [{', '.join(f'{{name: {each}}}' for each in plugins.split())}]]"
        self.configuration = parse(text, actions=ACTIONS, plugins=PLUGINS)
        self.has_branches = name == "branches"
        self.has_couples = self.random.random() < 0.1  # beside them more is looked at, which would hide what is missed
        self.show(objects.queue(["root"]))
        for event in [self.queue] * 5 + [self.node] * 3 + [self.jobs] * 3:
            event()

    def show(self, new, old=None):
        known, key = self.shown[type(new or old)], str((new or old).key)
        self.tell(self.cache, known.pop(key, None), new)
        if new is not None:
            known[key] = new

    def tell(self, cache, old, new):
        getattr(cache, f"{HANDLERS.get(type(old or new), 'object')}_changed")(old, new)

    def edit(self, old, **parts):
        self.show(objects.edited(old, **{"metadata": {"resourceVersion": str(next(self.numbers))}, **parts}))

    def any(self, kind):
        return self.random.choice([*self.shown[kind].values()])

    def jobs(self):
        """Some that are of one kind, or a single one."""
        state = self.random.getstate()
        for _ in range(self.random.choice((1, 4))):
            self.random.setstate(state)
            self.job()

    def job(self):
        pick, name, size = self.random.choice, f"j{next(self.numbers)}", self.random.randint(1, 3)
        cpu, group = pick((0, 1, 2, 3, 5)), {"phase": pick(("Pending", "Inqueue")), "topo": pick((None, ["hard", 1]))}
        group["minRes"] = pick((None, {"cpu": self.random.randint(1, 6)}))
        self.show(objects.pod_group([name, pick("ab"), self.random.randint(1, size), group]))
        options = {"labels": {"app": pick("pq")} | pick(({}, {"run": name})), "prio": self.random.randint(0, 2)}
        options |= pick(({}, {}, {}, {"pvc": [pick("cd")]}))
        options |= pick(({}, {}, {"sel": {"disk": "ssd"}}, {"hostPort": 80}, {"tolerate": "k=v:NoSchedule"}))
        if self.has_couples:
            run = {"key": "zone", "run": f"j{self.random.randint(1, 20)}"}
            options |= pick(({}, {"anti": {"key": "zone", "app": "p"}}, {"affine": {"key": "zone", "app": "q"}}, {"anti": run}))
        for i in range(size):
            self.show(objects.pod([f"{name}-{i}", name, "-", cpu, "1Gi" if cpu else 0, options]))

    def stranger(self):
        node = self.any(records.Node).metadata.name
        self.show(objects.pod([f"s{next(self.numbers)}", "", node, self.random.randint(1, 3), "1Gi"]))

    def pod_goes(self):
        self.show(None, old=self.any(records.Pod))

    def node(self):
        name, pick = f"n{self.random.randrange(5)}", self.random.choice
        labels, taints = {"zone": pick("xy")} | pick(({}, {"disk": "ssd"})), pick(([], [], ["k=v:NoSchedule"]))
        self.show(objects.node([name, pick((1, 2, 4, 8)), "64Gi", {"labels": labels, "taints": taints}]))

    def queue(self):
        options = {"weight": self.random.randint(1, 3), "state": self.random.choice(("Open", "Open", "Closed"))}
        options["capability"] = self.random.choice((None, {"cpu": self.random.randint(1, 12)}))
        name = self.random.choice(("a", "b", "top") if self.has_branches else "ab")
        if self.has_branches:
            options |= {"parent": self.random.choice(("top", "root")) if name != "top" else "root", "state": "Open"}
        self.show(objects.queue([name, options]))

    def quota(self):
        status = {"hard": {"cpu": str(self.random.randint(2, 12))}, "used": {"cpu": str(self.random.randint(0, 6))}}
        self.show(made(records.ResourceQuota, "quota", status=status))

    def group(self):
        self.edit(self.any(records.PodGroup), spec={"minMember": self.random.randint(1, 3), "queue": self.random.choice("ab")})

    def part_of_network(self):
        nodes = [node.metadata.name for node in self.shown[records.Node].values()]
        self.show(objects.hyper_node("h", 1, self.random.sample(nodes, min(len(nodes), 2)), {}))

    def claim(self):
        """A claim comes, gets its volume, or goes with it; or it changes in what nobody reads."""
        name, pick = self.random.choice("cd"), self.random.choice
        known = self.shown[records.PersistentVolumeClaim].get(f"t/{name}")
        if known is None:
            modes = [pick(("ReadWriteMany", "ReadWriteOncePod"))]
            self.show(made(records.PersistentVolumeClaim, name, spec={"storageClassName": "fast", "accessModes": modes}))
        elif known.spec.volume_name and pick((True, False)):
            self.show(None, old=known)
            self.show(None, old=self.shown[records.PersistentVolume][f"v-{name}"])
        elif known.spec.volume_name:
            self.edit(known, metadata={"labels": {"number": str(next(self.numbers))}})
        else:
            terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [pick("xy")]}]}]
            volume = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
            self.show(made(records.PersistentVolume, f"v-{name}", namespace="", spec=volume))
            annotations = {"pv.kubernetes.io/bind-completed": "yes"}
            self.edit(known, metadata={"annotations": annotations}, spec={"volumeName": f"v-{name}"}, status={"phase": "Bound"})

    def service(self):
        self.show(made(records.Service, self.random.choice("st"), spec={"selector": {"app": self.random.choice("pq")}}))

    def heartbeat(self):
        node = self.any(records.Node)
        self.edit(node, metadata={"annotations": {**node.metadata.annotations, "seen": str(next(self.numbers))}})

    def decided(self, snapshot):
        ports = Ports(objects.NOW, (commits := []).append)
        outcome = run_cycle(snapshot, self.configuration, actions=ACTIONS, plugins=PLUGINS, ports=ports, uid="u")
        binds = {uid: node for commit in commits for each in commit.binds for uid, node in each.placed}
        return binds, {each.task.uid for commit in commits for each in commit.evictions}, outcome

    def session(self):
        binds, evicted, outcome = self.decided(self.cache.snapshot())
        for uid, node in binds.items():
            assert self.cache.pods.assume(uid, node) is None
        for key, status in outcome.statuses.items():
            self.edit(self.shown[records.PodGroup][key], status=msgspec.to_builtins(status))
        take_rests(self.cache, outcome)
        for pod in [*self.shown[records.Pod].values()]:
            if pod.metadata.uid in evicted:
                self.show(None, old=pod)
            elif pod.metadata.uid in binds:
                self.edit(pod, spec={"nodeName": binds[pod.metadata.uid]}, status={"phase": "Running"})
        return bool(binds or evicted or outcome.statuses)

    def missed(self):
        """What a session over all jobs, and one over a cache made anew, decide when nothing more is decided."""
        assert any(not self.session() and not self.session() for _ in range(20))
        own, anew = self.cache.snapshot(), Cache()
        for each in chain.from_iterable(known.values() for known in self.shown.values()):
            self.tell(anew, None, each)
        whole = replace(own, jobs=list(own.all_jobs.values()), candidates=(), columns=own.columns.copy())
        return [found[:2] for found in map(self.decided, (whole, anew.snapshot())) if found[0] or found[1]]


def missed(seed, name):
    world = World(seed, name)
    events = (world.jobs, world.stranger, world.pod_goes, world.node, world.node, world.queue, world.group, world.part_of_network)
    events += (world.claim, world.claim, world.service, world.heartbeat)
    events += (world.quota,) if "resourcequota" in CONFIGURATIONS[name][1] else ()
    for event in world.random.choices(events, k=12):
        event()
        if found := world.missed():
            return event.__name__, found
    return None


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("seed", range(16 // ONE_IN))
def test_a_settled_cache_leaves_no_decision_to_a_session_over_all_jobs_or_a_new_cache(name, seed):
    assert missed(seed, name) is None


def test_the_check_for_missed_decisions_detects_a_room_change_without_retries(monkeypatch):
    monkeypatch.setattr(Rooms, "may_hold", lambda *_: False)
    assert any(missed(seed, "no gang") for seed in range(10))


def test_the_check_for_missed_decisions_detects_an_object_change_without_retries(monkeypatch):
    monkeypatch.setattr(ReadObjects, "is_read", lambda *_: False)
    assert any(missed(seed, "no gang") for seed in range(20))
