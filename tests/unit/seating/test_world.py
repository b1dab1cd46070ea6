"""Whatever happens between publishing, placing, creating and observing: no node is over-committed, and no gang is left half."""

import asyncio
import contextlib
import copy
import random

import pytest

from pyroclast.api.types import JOBS, PODS, Key
from pyroclast.kube.basics.errors import ConnectionFailed, Forbidden, ServerError
from pyroclast.kube.http.client import PatchKind
from tests.counts import examples
from tests.unit.job_controller.cluster import NS, task
from tests.unit.job_controller.memory_cluster import VirtualLoop, given_by, key_of
from tests.unit.seating.world import World

QUIET_SECONDS = 150.0  # seats are withdrawn after 30 s, and a quota keeps Jobs waiting for a minute


def in_world(nodes):
    """Give an asynchronous test a fresh `world` in virtual time, with these nodes: {name: thousandths of a CPU}."""

    async def in_it(test):
        world = World()
        await world.start(nodes)
        try:
            await test(world)
        finally:
            await world.stop()
        assert world.judge.faults == []

    def run(test):
        with contextlib.closing(VirtualLoop()) as loop:
            loop.run_until_complete(in_it(test))

    return given_by(run)


def submit(world, name, size, cpu, *, minimum=None, policies=()):
    row = task("w", size, minAvailable=size if minimum is None else minimum)
    row["template"] = copy.deepcopy(row["template"])
    row["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{cpu}m"}}
    world.cluster.job(name, row, **({"policies": list(policies), "maxRetry": 100} if policies else {}))


def scale(world, name, size):
    """Another number of pods; the gang needs all of them."""
    spec = copy.deepcopy(world.cluster.server.of(JOBS)[Key(NS, name)]["spec"])
    spec["tasks"][0] |= {"replicas": size, "minAvailable": size}
    spec["minAvailable"] = size
    world.cluster.server.patch(JOBS, Key(NS, name), {"spec": spec}, PatchKind.MERGE)


def running(world, name):
    return world.cluster.status(name).get("running", 0)


def phases(world):
    return {key.name: world.cluster.phase(key.name) for key in world.cluster.server.of(JOBS)}


async def settled(world, *, within=QUIET_SECONDS):
    """Wait until all Jobs run and no gang is left half, or give up."""
    with contextlib.suppress(TimeoutError):
        await world.cluster.until(lambda: set(phases(world).values()) <= {"Running"} and not world.halves(), within=within)


@in_world({f"n{index}": 4000 for index in range(3)})
async def test_gangs_run_with_pods_created_on_their_nodes_and_no_binds(world):
    for index in range(6):
        submit(world, f"j{index}", 4, 500)
    await settled(world)
    assert [running(world, f"j{index}") for index in range(6)] == [4] * 6
    assert (world.judge.made_on_node, world.judge.bound) == (24, 0)


@in_world({"n0": 4000, "n1": 4000})
async def test_a_pod_that_does_not_fit_waits_unbound_and_runs_when_capacity_is_released(world):
    submit(world, "first", 2, 2500)
    await settled(world)
    submit(world, "second", 1, 2000)
    await world.cluster.until(lambda: sum(not pod["spec"].get("nodeName") for pod in world.cluster.pods()) == 1)
    world.cluster.server.delete(JOBS, Key(NS, "first"))
    await settled(world, within=20)
    assert running(world, "second") == 1


@in_world({f"n{index}": 16000 for index in range(4)})
async def test_a_sidecar_that_admission_adds_to_some_pods_overcommits_no_node(world):
    # a pod that is larger than its seat goes at once, but is there for a moment: nodes have room for it
    rng, made = random.Random(7), []

    def admit(kind, item):
        if kind == PODS and not item["metadata"]["name"].endswith("-seats") and rng.random() < 0.5:
            item["spec"]["containers"].append({"name": "side", "resources": {"requests": {"cpu": "1"}}})
            made.append(item["metadata"]["name"])
        return item

    world.cluster.server.admit = admit
    submit(world, "j", 6, 500)
    submit(world, "k", 6, 500)
    await settled(world)
    assert made
    assert [running(world, name) for name in ("j", "k")] == [6, 6]
    used = world.used(excused=set())
    assert all(used[node] <= room for node, room in world.room.items())


@in_world({f"n{index}": 3000 for index in range(2)})
async def test_a_sidecar_that_admission_always_adds_is_placed_with_the_pod(world):
    def admit(kind, item):
        if kind == PODS:
            item["spec"]["containers"].append({"name": "side", "resources": {"requests": {"cpu": "1"}}})
        return item

    world.cluster.server.admit = admit
    submit(world, "j", 4, 500)
    await settled(world)
    assert running(world, "j") == 4
    assert (world.judge.made_on_node, world.judge.bound) == (4, 0)


async def killed_and_back(world, who):
    """The scheduler, the controller, or `both` are killed, and come back a second later."""
    if who != "controller":
        await world.scheduler.kill()
    if who != "scheduler":
        await world.cluster.replica.kill()
    await asyncio.sleep(1.0)
    if who != "controller":
        await world.scheduler.start()
    if who != "scheduler":
        await world.cluster.start_controller()


@pytest.mark.parametrize("who", ["scheduler", "controller", "both"])
@pytest.mark.parametrize("after", range(0, 60, 4))
@in_world({f"n{index}": 2000 for index in range(2)})
async def test_a_gang_runs_whole_after_scheduler_or_controller_is_killed_at_any_point(world, who, after):
    """`after`: hundredths of a second since the Job came; publishing, placing, creating and observing take half a second."""
    submit(world, "j", 8, 500)
    await asyncio.sleep(after / 100)
    await killed_and_back(world, who)
    await settled(world, within=10)
    assert running(world, "j") == 8
    assert len(world.cluster.pods()) == 8


@in_world({"n0": 4000, "n1": 2900, "n2": 2900, "n3": 2900})
async def test_withdrawn_seats_are_not_reused_while_their_pods_may_still_be_created(world, monkeypatch):
    """Requests that take 45 s: the scheduler withdraws the seats after 30 s, and the pods are created on them all the same."""
    client = world.cluster.replica.client
    create, begun = client.create, []

    async def create_late(kind, body, **more):
        if kind == PODS and body["spec"].get("nodeName"):
            begun.append(body["metadata"]["name"])
            await asyncio.sleep(45)
        return await create(kind, body, **more)

    monkeypatch.setattr(client, "create", create_late)
    submit(world, "first", 1, 4000)
    await world.cluster.until(lambda: begun)
    submit(world, "second", 1, 3000)  # it fits nowhere else, and waits with its pod
    await asyncio.sleep(40)
    assert world.used(excused=set())["n0"] == 0
    await asyncio.sleep(20)
    assert running(world, "first") == 1
    assert (world.judge.made_on_node, world.judge.bound) == (1, 0)


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
@in_world({f"n{index}": 2000 for index in range(2)})
async def test_a_gang_that_is_restarted_or_scaled_is_whole_again(world, action):
    submit(world, "j", 4, 500, policies=[{"event": "PodFailed", "action": action}])
    await settled(world)
    world.cluster.set_phase(world.cluster.pods()[0], "Failed", 1)
    await world.cluster.until(lambda: world.cluster.status("j").get("retryCount") == 1)
    await settled(world)
    assert running(world, "j") == 4
    scale(world, "j", 7)
    await world.cluster.until(lambda: running(world, "j") == 7)
    again = {"RestartJob": 8, "RestartTask": 8, "RestartPod": 5}[action]  # and three of the scale
    assert (world.judge.made_on_node, world.judge.bound) == (again + 3, 0)


@pytest.mark.parametrize("who", ["scheduler", "controller", "both"])
@pytest.mark.parametrize("after", range(0, 120, 8))
@in_world({f"n{index}": 2000 for index in range(2)})
async def test_a_gang_runs_whole_after_a_kill_while_it_restarts_a_pod_and_is_scaled(world, who, after):
    """`after`: hundredths of a second since a pod failed and the Job was scaled."""
    submit(world, "j", 4, 500, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    await settled(world)
    world.cluster.set_phase(world.cluster.pods()[0], "Failed", 1)
    scale(world, "j", 7)
    await asyncio.sleep(after / 100)
    await killed_and_back(world, who)
    await world.cluster.until(lambda: running(world, "j") == 7, within=15)
    assert len(world.cluster.pods()) == 7


@in_world({f"n{index}": 2000 for index in range(2)})
async def test_a_recreated_pod_that_fits_nowhere_is_created_unbound_and_bound_later(world):
    submit(world, "j", 2, 2000, minimum=1, policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    await settled(world)
    lost = next(pod for pod in world.cluster.pods() if pod["spec"]["nodeName"] == "n1")
    world.cordon("n1", closed=True)
    world.cluster.server.delete(PODS, key_of(lost), grace=0)
    await world.cluster.until(lambda: any(not pod["spec"].get("nodeName") for pod in world.cluster.pods()), within=10)
    world.cordon("n1", closed=False)
    await world.cluster.until(lambda: running(world, "j") == 2, within=20)
    assert (world.judge.made_on_node, world.judge.bound) == (2, 1)
    world.cluster.server.delete(PODS, key_of(world.cluster.pods()[0]), grace=0)
    await world.cluster.until(lambda: world.judge.made_on_node == 3, within=20)  # the next one has a seat again


@in_world({"n0": 2000})
async def test_evicted_pods_are_recreated_after_a_delay_while_the_scheduler_is_down(world):
    submit(world, "j", 2, 500, policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    await settled(world)
    await world.scheduler.kill()
    world.cluster.server.delete(PODS, key_of(world.cluster.pods()[0]), grace=0)
    await asyncio.sleep(5)
    assert len(world.cluster.pods()) == 1
    await world.cluster.until(lambda: len(world.cluster.pods()) == 2, within=10)
    await world.scheduler.start()
    await settled(world, within=10)
    assert (running(world, "j"), world.judge.made_on_node, world.judge.bound) == (2, 2, 1)


class Chaos:
    """Things that happen, drawn from a seed."""

    def __init__(self, world, rng):
        self._world, self._rng = world, rng
        self._made = self._nodes = 0
        self._closed: set[str] = set()
        self.rate = 0.1

    def latency(self):
        """Now and then a request takes long, as when a webhook is slow."""
        return self._rng.choice([0.002, 0.002, 0.002, 0.05, 0.5]) if self.rate else 0.002

    def disturb(self, client):
        """Let faults and delays meet the requests of `client`."""
        client.fault, client.latency = self.fault, self.latency

    def fault(self, after):
        if self._rng.random() < self.rate / 2:
            return ConnectionFailed("lost") if after or self._rng.random() < 0.5 else ServerError(500, "InternalError", "no")
        return None

    def admit(self, kind, item):
        if kind == PODS and self._rng.random() < self.rate / 2 and not item["metadata"]["name"].endswith("-seats"):
            raise Forbidden(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q')
        return item

    async def step(self):
        rng, world = self._rng, self._world
        deeds = [self._submit] * 6 + [self._delete] * 4 + [self._cordon, self._uncordon, self._lose, self._add]
        deeds += [self._restart_scheduler, self._restart_controller, self._kill_pod, world.cluster.server.cut_watches]
        deeds += [self._scale, self._fail_pod] * 2
        result = rng.choice(deeds)()
        if result is not None:
            await result
        await asyncio.sleep(rng.choice([0.01, 0.1, 0.5, 2.0, 4.0]))

    def _submit(self):
        for _ in range(self._rng.randint(1, 3)):
            self._made += 1
            size = self._rng.randint(1, 8)
            minimum = self._rng.choice([size, max(1, size - 2)])
            policies = [{"event": "PodFailed", "action": self._rng.choice(["RestartJob", "RestartTask", "RestartPod"])}]
            cpu = self._rng.choice([250, 500, 1000])
            submit(self._world, f"j{self._made}", size, cpu, minimum=minimum, policies=policies)

    def _delete(self):
        jobs = sorted(self._world.cluster.server.of(JOBS))
        if jobs:
            self._world.cluster.server.delete(JOBS, self._rng.choice(jobs))

    def _cordon(self):
        name = self._rng.choice(sorted(self._world.room))
        self._closed.add(name)
        self._world.cordon(name, closed=True)

    def _uncordon(self):
        for name in self._closed & self._world.room.keys():
            self._world.cordon(name, closed=False)
        self._closed.clear()

    def _lose(self):
        if len(self._world.room) > 2:
            self._world.lose_node(self._rng.choice(sorted(self._world.room)))

    def _add(self):
        self._nodes += 1
        self._world.add_node(f"m{self._nodes}", 4000)

    def _kill_pod(self):
        pods = sorted(self._world.cluster.server.of(PODS))
        if pods:
            self._world.cluster.server.delete(PODS, self._rng.choice(pods), grace=0)

    def _scale(self):
        jobs = sorted(self._world.cluster.server.of(JOBS))
        if jobs:
            scale(self._world, self._rng.choice(jobs).name, self._rng.randint(1, 8))

    def _fail_pod(self):
        running = [pod for pod in self._world.cluster.pods() if pod["status"]["phase"] == "Running"]
        if running:
            self._world.cluster.set_phase(self._rng.choice(running), "Failed", 1)

    async def _restart_scheduler(self):
        await self._world.scheduler.kill()
        await asyncio.sleep(self._rng.choice([0.0, 1.0]))
        await self._world.scheduler.start()
        self.disturb(self._world.scheduler.client)

    async def _restart_controller(self):
        await self._world.cluster.replica.kill()
        await asyncio.sleep(self._rng.choice([0.0, 1.0, 5.0]))
        await self._world.cluster.start_controller()
        self.disturb(self._world.cluster.replica.client)

    def calm(self):
        self.rate = 0.0
        self._uncordon()
        self._world.cluster.server.admit = lambda _, item: item


@pytest.mark.parametrize("seed", range(examples(40, one_in=10)))
@in_world({f"n{index}": 4000 for index in range(4)})
async def test_all_jobs_run_and_no_gang_is_half_started_after_random_faults(world, seed):
    chaos = Chaos(world, random.Random(seed))
    world.cluster.server.admit = chaos.admit
    chaos.disturb(world.scheduler.client)
    chaos.disturb(world.cluster.replica.client)
    for _ in range(40):
        await chaos.step()
    chaos.calm()
    for index in range(12):  # then there is room for all
        world.add_node(f"late{index}", 16000)
    await settled(world)
    assert set(phases(world).values()) <= {"Running"}, phases(world)
    assert world.halves() == []
    assert world.judge.made_on_node > 0
