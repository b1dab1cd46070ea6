"""`python -m tests.bench.scheduler_table [NAME…]`: what the scheduler's engine costs, at three sizes each, and how it grows.

A line per work: milliseconds of CPU of one core at each size, the growth as an exponent, the aim at the largest size. The pace of
a machine varies, so a fixed loop of numpy is timed beside every figure; the last column says how many of that loop the figure is.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast.api.enums import PodPhase
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.configuration import Configuration, parse
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import Ports
from tests.scenarios.taking import assume_all, take

from .scheduler import ACTIONS, CHART, PLUGINS, group, node, pod, queue
from .usage import memory

EVICTING = CHART.replace("enqueue, allocate, backfill", "enqueue, allocate, backfill, preempt, reclaim")
FILLING = parse(CHART, actions=ACTIONS, plugins=PLUGINS)
TAKING = parse(EVICTING, actions=ACTIONS, plugins=PLUGINS)
TAKING_GANGS = parse(EVICTING.replace("preempt, reclaim", "gangpreempt, gangreclaim"), actions=ACTIONS, plugins=PLUGINS)


def with_plugin(name: str) -> Configuration:
    """The default configuration with a plugin more, or without one that is in it."""
    found = re.search(rf",?\s*\{{name: {re.escape(name)}\b[^}}]*\}}", CHART)
    if found is None:
        text = CHART.replace("{name: binpack}", f"{{name: binpack}}, {{name: {name}}}")
        if name == "reservation":
            text = text.replace("allocate,", "elect, allocate, reserve,")
    else:
        text = CHART.replace(found.group(), "").replace("[, ", "[")
    return parse(text, actions=ACTIONS, plugins=PLUGINS)


NETWORK = with_plugin("network-topology-aware")
Run = Callable[[], object]


@dataclass
class Kept:
    """What the service keeps from cycle to cycle: what plugins remember, the reservations, the number of the schedule period."""

    memory: dict[str, object] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] | None = None
    period: int = 0


NOW = time.time()  # stands still: on a slow machine messages would be renewed, which is another work
KEPT: WeakKeyDictionary[Cache, Kept] = WeakKeyDictionary()


@dataclass(frozen=True)
class Work:
    """Something measured: `run(size)` prepares it and gives the function to time."""

    name: str
    aim: float
    sizes: Sequence[int]
    run: Callable[[int], Run]
    memory: float = 0.0
    """The aim for what the prepared work takes at the largest size, in MB; 0: not measured."""


def loop() -> float:
    """Milliseconds of a fixed piece of work of the same kind."""
    values = np.arange(5000.0)
    start = time.process_time()
    total = 0.0
    for i in range(200):
        total += float(np.where(values > i, values * 1.5, 0.0).max())
    return (time.process_time() - start) * 1000


def cluster(nodes: int, *, cpu: int = 32, taint: bool = False) -> Cache:
    cache = Cache()
    cache.queue_changed(None, queue("default"))
    for i in range(nodes):
        made = node(i, cpu=cpu)
        if taint and i == 0:
            body = msgspec.to_builtins(made)
            body["spec"] = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
            made = msgspec.convert(body, records.Node)
        cache.node_changed(None, made)
    return cache


def running(
    cache: Cache,
    name: str,
    size: int,
    nodes: int,
    *,
    minimum: int | None = None,
    at: int = 0,
    millis: int = 1000,
    priority: str = "",
    queue_name: str = "default",
    namespace: str = "b",
) -> None:
    """A job that runs."""
    body = msgspec.to_builtins(group(name, size if minimum is None else minimum, queue_name=queue_name))
    body["metadata"]["namespace"] = namespace
    body["status"] = {"phase": "Running", "running": size, "conditions": [scheduled()]}
    body["spec"]["priorityClassName"] = priority
    cache.group_changed(None, msgspec.convert(body, records.PodGroup))
    for i in range(size):
        made = msgspec.to_builtins(pod(name, i, millis=millis))
        made["metadata"]["namespace"] = namespace
        made["spec"]["nodeName"] = f"node-{(at + i) % nodes}"
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        cache.pod_changed(None, msgspec.convert(made, records.Pod))


def scheduled() -> dict[str, str]:
    return {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}


def waiting(
    cache: Cache,
    name: str,
    size: int,
    *,
    minimum: int | None = None,
    millis: int = 1000,
    spec: dict[str, object] | None = None,
    labels: dict[str, str] | None = None,
    priority: str = "",
    queue_name: str = "default",
    namespace: str = "b",
) -> None:
    body = msgspec.to_builtins(group(name, size if minimum is None else minimum, queue_name=queue_name))
    body["metadata"]["namespace"] = namespace
    body["spec"]["priorityClassName"] = priority
    cache.group_changed(None, msgspec.convert(body, records.PodGroup))
    for i in range(size):
        made = pod(name, i, millis=millis, spec=spec)
        labeled = {**made.metadata.labels, **(labels or {})}
        metadata = msgspec.structs.replace(made.metadata, namespace=namespace, labels=labeled)
        cache.pod_changed(None, msgspec.structs.replace(made, metadata=metadata))


def cycle(cache: Cache, configuration: Configuration = FILLING, *, keep: bool = False) -> tuple[Outcome, list[Commit]]:
    """One cycle as the service runs it; with `keep` what it decides is taken up."""
    commits: list[Commit] = []
    kept = KEPT.setdefault(cache, Kept())
    kept.period += keep
    outcome = run_cycle(
        cache.snapshot(),
        configuration,
        actions=ACTIONS,
        plugins=PLUGINS,
        ports=Ports(NOW, commits.append, memory=kept.memory, reservations=kept.reservations, period=kept.period),
        uid="bench",
    )
    if keep:
        for commit in commits:
            for binds in commit.binds:
                assert assume_all(cache, binds.placed) is None
            for eviction in commit.evictions:
                cache.pods.releasing(eviction.task.uid)
        take(cache, outcome)
        if outcome.reservations is not None:
            cache.reserve(kept.reservations or {}, outcome.reservations)
            kept.reservations = dict(outcome.reservations)
    return outcome, commits


def placed(commits: Sequence[Commit]) -> int:
    """How many pods were given a node."""
    return sum(len(binds.placed) for commit in commits for binds in commit.binds)


def keeping_apart(selector: dict[str, object]) -> dict[str, object]:
    """The spec of a pod that shares no node with those that the selector matches."""
    anti = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}}


def steady(cache: Cache, configuration: Configuration = FILLING) -> None:
    """Cycles until nothing new comes of them."""
    for _ in range(4):
        cycle(cache, configuration, keep=True)


def idle(jobs: int) -> Run:
    cache = cluster(jobs // 2)
    for j in range(jobs):
        running(cache, f"job{j}", 10, jobs // 2, at=7 * j, millis=100)
    steady(cache)
    return partial(cycle, cache, keep=True)


def hopeless(
    jobs: int,
    *,
    change: bool = False,
    heartbeat: bool = False,
    shapes: int = 50,
    millis: int = 40_000,
    prepare: Callable[[Cache], None] = lambda _: None,
    configuration: Configuration = FILLING,
) -> Run:
    """Jobs that do not fit: their pods ask for more than a node has, or `prepare` left them too little."""
    cache = cluster(5000)
    prepare(cache)
    for j in range(jobs):
        waiting(cache, f"job{j}", 4, millis=millis + j % shapes)
    steady(cache, configuration)
    turns = iter(range(1, 10**6))

    def run() -> None:
        if change:
            cache.node_changed(None, node(7, cpu=16 + next(turns) % 8))
        if heartbeat:
            made = node(7)
            metadata = msgspec.structs.replace(made.metadata, annotations={"seen": str(next(turns))})
            cache.node_changed(None, msgspec.structs.replace(made, metadata=metadata))
        cycle(cache, configuration, keep=True)

    return run


def end_of(cache: Cache, number: int) -> None:
    """A pod of that running job succeeds; the place of a deleted one would be kept for its replacement."""
    task = next(task for task in cache.groups.tasks_of(f"b/run{number}") if task.status is TaskStatus.RUNNING)
    ended = msgspec.structs.replace(task.pod.status, phase=PodPhase.SUCCEEDED)
    cache.pod_changed(task.pod, msgspec.structs.replace(task.pod, status=ended))


def slots(
    jobs: int,
    *,
    configuration: Configuration = FILLING,
    labels: Callable[[int], dict[str, str]] = lambda _: {},
    spec: dict[str, object] | None = None,
    prepare: Callable[[Cache], None] = lambda _: None,
    are_large: bool = False,
) -> Run:
    """Jobs of one pod wait on 1,000 full nodes, and a pod of another job ends.

    `are_large`: each Job has a request of its own, for which the place of that pod is too small.
    """
    cache = cluster(1000)
    for j in range(1000):
        running(cache, f"run{j}", 16, 1000, at=16 * j, millis=2000)
    prepare(cache)
    for j in range(jobs):
        waiting(cache, f"job{j}", 1, millis=2001 + j if are_large else 2000, labels=labels(j), spec=spec)
    steady(cache, configuration)
    turns = iter(range(1000))

    def run() -> None:
        end_of(cache, next(turns))
        _, commits = cycle(cache, configuration, keep=True)
        assert placed(commits) == (0 if are_large else 1)

    return run


def large(nodes: int, *, configuration: Configuration = FILLING) -> Run:
    """Full nodes with 10 running pods each, 100 Jobs wait, and a pod ends: a Job gets its place."""
    cache = cluster(nodes)
    for j in range(nodes // 10):
        running(cache, f"run{j}", 100, nodes, at=100 * j, millis=3200)
    for j in range(100):
        waiting(cache, f"job{j}", 1, millis=3200)
    steady(cache, configuration)
    turns = iter(range(nodes // 10))

    def run() -> None:
        end_of(cache, next(turns))
        _, commits = cycle(cache, configuration, keep=True)
        assert placed(commits) == 1

    return run


def placing(
    size: int, *, prepare: Callable[[Cache], None] = lambda _: None, taint: bool = False, spec: dict[str, object] | None = None
) -> Run:
    cache = cluster(5000, taint=taint)
    prepare(cache)
    waiting(cache, "job0", size, spec=spec)

    def run() -> None:
        _, commits = cycle(cache)
        assert placed(commits) == size, placed(commits)

    return run


def beside(cache: Cache, name: str, selector: dict[str, object], namespace: str = "b") -> None:
    """A pod runs that keeps away from those that the selector matches."""
    body = msgspec.to_builtins(pod(name, 0, millis=0, spec=keeping_apart(selector)))
    body["metadata"]["namespace"] = namespace
    body["spec"]["nodeName"], body["status"]["phase"] = "node-3", "Running"
    cache.pod_changed(None, msgspec.convert(body, records.Pod))


def anti_affine(cache: Cache) -> None:
    beside(cache, "loner", {"matchLabels": {"app": "other"}})


def minds_names(cache: Cache) -> None:
    """A pod of the system keeps away from others of its kind by a label that controllers number their pods by."""
    expression = {"key": "pod-template-hash", "operator": "In", "values": ["x"]}
    beside(cache, "dns", {"matchExpressions": [expression]}, "kube-system")


SHARED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def bound_claim(cache: Cache) -> None:
    """A claim that has its volume, which all nodes reach."""
    metadata = {"namespace": "b", "name": "data", "uid": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": metadata, "spec": {"volumeName": "volume"}, "status": {"phase": "Bound"}}
    cache.object_changed(None, msgspec.convert(claim, records.PersistentVolumeClaim))
    cache.object_changed(None, msgspec.convert({"metadata": {"name": "volume", "uid": "v"}}, records.PersistentVolume))


def full_nodes(cache: Cache) -> None:
    """Each node has less left than a pod of the waiting jobs asks for; their queue is entitled to more."""
    cache.queue_changed(None, queue("other"))
    running(cache, "run", 5000, 5000, millis=31_000, queue_name="other")


def full_queue(cache: Cache) -> None:
    body = msgspec.to_builtins(queue("default"))
    body["spec"]["capability"] = {"cpu": "1"}
    cache.queue_changed(queue("default"), msgspec.convert(body, records.Queue))


def elastic(size: int) -> Run:
    cache = cluster(5000)
    waiting(cache, "job0", size, minimum=1)
    waiting(cache, "zother", 10, millis=64_000)

    def run() -> None:
        _, commits = cycle(cache)
        assert placed(commits) == size, placed(commits)

    return run


def classes(cache: Cache) -> None:
    for name, value in (("low", 1), ("high", 10)):
        body = {"metadata": {"name": name, "uid": name}, "value": value}
        cache.priority_changed(None, msgspec.convert(body, records.PriorityClass))


def preempting(size: int, *, wins: bool = True, action: str = "preempt") -> Run:
    nodes = 10 * size
    cache = cluster(nodes)
    classes(cache)
    for j in range(nodes):
        running(cache, f"job{j}", 1, nodes, at=j, millis=32_000, priority="low" if wins else "high")
    steady(cache)
    waiting(cache, "gang", size, millis=20_000, priority="high")
    configuration = parse(
        f"""
actions: allocate, {action}
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: nodeorder}}]
""",
        actions=ACTIONS,
        plugins=PLUGINS,
    )

    def run() -> None:
        _, commits = cycle(cache, configuration)
        evicted = sum(len(commit.evictions) for commit in commits)
        assert evicted >= size if wins else not evicted, evicted

    return run


def shapes(pods: int) -> Run:
    cache = cluster(5000)
    for j in range(pods // 20):
        waiting(cache, f"job{j}", 20, millis=100 + 10 * (j % 50))

    def run() -> None:
        _, commits = cycle(cache)
        assert placed(commits) == pods

    return run


def gpu_nodes(nodes: int = 500) -> Cache:
    """Nodes of 8 GPUs, in parts of the network of 100 each."""
    cache = Cache()
    cache.queue_changed(None, queue("default"))
    for i in range(nodes):
        body = msgspec.to_builtins(node(i, cpu=64))
        body["status"]["allocatable"]["nvidia.com/gpu"] = "8"
        cache.node_changed(None, msgspec.convert(body, records.Node))
    for part in range(nodes // 100):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"node-{100 * part + i}"}}} for i in range(100)]
        body = {"metadata": {"name": f"part-{part}", "uid": f"part-{part}"}, "spec": {"tier": 1, "members": members}}
        cache.object_changed(None, msgspec.convert(body, records.HyperNode))
    return cache


def gpu_job(
    cache: Cache, name: str, size: int, *, queue_name: str = "default", at: int | None = None, near: bool = False
) -> None:
    """A job whose pods ask for one GPU each. `at`: it runs, its first pod on that node; `near`: in one part of the network."""
    body = msgspec.to_builtins(group(name, size, queue_name=queue_name))
    if at is not None:
        body["status"] = {"phase": "Running", "running": size, "conditions": [scheduled()]}
    if near:
        body["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    cache.group_changed(None, msgspec.convert(body, records.PodGroup))
    for i in range(size):
        body = msgspec.to_builtins(pod(name, i))
        body["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
        if at is not None:
            body["spec"]["nodeName"], body["status"] = f"node-{at + i}", {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
            body["metadata"]["annotations"]["volcano.sh/preemptable"] = "true"
        cache.pod_changed(None, msgspec.convert(body, records.Pod))


def singles(jobs: int) -> Run:
    cache = gpu_nodes()
    for j in range(jobs):
        gpu_job(cache, f"job{j}", 1)

    def run() -> None:
        _, commits = cycle(cache)
        assert placed(commits) == jobs

    return run


def domain(size: int, *, fits: bool) -> Run:
    """A gang in one part of the network: into free parts, or into parts of which each lacks half of what it needs."""
    cache = gpu_nodes()
    for part in range(0 if fits else 5):
        for i in range(800 - size // 2):
            gpu_job(cache, f"run{part}-{i}", 1, at=100 * part + i % 100)
    steady(cache, NETWORK)
    gpu_job(cache, "gang", size, near=True)

    def run() -> None:
        _, commits = cycle(cache, NETWORK)
        assert placed(commits) == (size if fits else 0)

    return run


def reclaiming(jobs: int) -> Run:
    """Jobs of one queue give up what another queue deserves."""
    cache = gpu_nodes(jobs // 8)
    cache.queue_changed(
        None, msgspec.convert({"metadata": {"name": "own", "uid": "own"}, "spec": {"weight": 10**6}}, records.Queue)
    )
    for j in range(jobs):
        gpu_job(cache, f"run{j}", 1, at=j % (jobs // 8))
    steady(cache, TAKING)
    for j in range(jobs):
        gpu_job(cache, f"job{j}", 1, queue_name="own")

    def run() -> None:
        _, commits = cycle(cache, TAKING)
        evicted = sum(len(commit.evictions) for commit in commits)
        assert evicted > 0.9 * jobs, evicted

    return run


VGPU = parse(
    CHART.replace("{name: binpack}", "{name: binpack}, {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}"),
    actions=ACTIONS,
    plugins=PLUGINS,
)


def vgpus(pods: int, *, nodes: int = 500) -> Run:
    """Jobs of 10 pods, each with a quarter of a card, on nodes of 8 cards."""
    cache = Cache()
    cache.queue_changed(None, queue("default"))
    for i in range(nodes):
        body = msgspec.to_builtins(node(i, cpu=64))
        cards = "".join(f"GPU-{i}-{card},10,40000,NVIDIA-A100,true,hami-core:" for card in range(8))
        body["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": cards}
        for name, amount in (("number", 80), ("memory", 320_000), ("cores", 800)):
            body["status"]["allocatable"][f"volcano.sh/vgpu-{name}"] = str(amount)
        cache.node_changed(None, msgspec.convert(body, records.Node))
    for j in range(pods // 10):
        cache.group_changed(None, group(f"job{j}", 10))
        for i in range(10):
            body = msgspec.to_builtins(pod(f"job{j}", i))
            limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10000"}
            body["spec"]["containers"][0]["resources"]["limits"] = limits
            cache.pod_changed(None, msgspec.convert(body, records.Pod))

    def run() -> None:
        _, commits = cycle(cache, VGPU)
        assert placed(commits) == pods

    return run


def fabric(nodes: int) -> Run:
    """Three tiers by regular expression: racks of 4 nodes, rows of 16 racks, halls of 16 rows; the capacity of a node changes."""
    cache = Cache()
    cache.queue_changed(None, queue("default"))
    for i in range(nodes):
        body = msgspec.to_builtins(node(i))
        body["metadata"]["name"] = f"h{i // 1024}-r{i // 64}-k{i // 4}-n{i}"
        cache.node_changed(None, msgspec.convert(body, records.Node))
    for tier, size, letter in ((1, 4, "k"), (2, 64, "r"), (3, 1024, "h")):
        for part in range(-(-nodes // size)):
            members = [{"type": "Node", "selector": {"regexMatch": {"pattern": f"(^|-){letter}{part}-"}}}]
            body = {"metadata": {"name": f"{letter}{part}", "uid": f"{letter}{part}"}, "spec": {"tier": tier, "members": members}}
            cache.object_changed(None, msgspec.convert(body, records.HyperNode))
    waiting(cache, "job", 1, millis=64_000)
    steady(cache, NETWORK)
    turns = iter(range(1, 10**6))

    def run() -> None:
        body = msgspec.to_builtins(node(0, cpu=16 + next(turns) % 8))
        body["metadata"]["name"] = "h0-r0-k0-n0"
        cache.node_changed(None, msgspec.convert(body, records.Node))
        cycle(cache, NETWORK, keep=True)

    return run


def queues(count: int) -> Run:
    """Queues with a running Job of 16 pods each, one pod a node; a Job in each asks for more than any node has; a pod ends."""
    cache = cluster(1000)
    for q in range(count):
        cache.queue_changed(None, queue(f"q{q}"))
        running(cache, f"run{q}", 4, 1000, at=4 * q, millis=2000, queue_name=f"q{q}")
        waiting(cache, f"job{q}", 1, millis=40_000, queue_name=f"q{q}")
    steady(cache, TAKING)
    turns = iter(range(count))

    def run() -> None:
        end_of(cache, next(turns))
        cycle(cache, TAKING, keep=True)

    return run


ZONE = "zone"
NEAR = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": ZONE}]}}}  # fmt: skip
SPREAD = {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "b"}}}]}  # fmt: skip

SIZES = (1250, 2500, 5000)


def terms(jobs: int) -> Run:
    """Jobs that keep their own pods apart by a label of their own, beside 16,000 pods; one node changes."""
    cache = cluster(1000)
    for j in range(1000):
        running(cache, f"run{j}", 16, 1000, at=16 * j, millis=1000)
    for j in range(jobs):
        labels = {"run": f"job{j}"}
        waiting(cache, f"job{j}", 1, millis=40_000, spec=keeping_apart({"matchLabels": labels}), labels=labels)
    steady(cache)
    turns = iter(range(1, 10**6))

    def run() -> None:
        cache.node_changed(None, node(7, cpu=16 + next(turns) % 8))
        cycle(cache, keep=True)

    return run


def spaces(jobs: int) -> Run:
    """Jobs of one pod, each in a namespace of its own, where it keeps away from 16 other pods by a label that all have."""
    cache = cluster(1000)
    spec = keeping_apart({"matchLabels": {"app": "b"}})
    for j in range(1000):
        running(cache, f"run{j}", 16, 1000, at=16 * j, millis=1000, namespace=f"n{j}")
    for j in range(jobs):
        waiting(cache, f"job{j}", 1, spec=spec, namespace=f"n{j}")

    def run() -> None:
        _, commits = cycle(cache)
        assert placed(commits) == jobs

    return run


def with_device(cache: Cache, j: int) -> None:
    """A Job with a claim of its own on a device, which no node has."""
    wish = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    body = {"metadata": {"namespace": "b", "name": f"c{j}", "uid": f"c{j}"}, "spec": {"devices": {"requests": [wish]}}}
    cache.object_changed(None, msgspec.convert(body, records.ResourceClaim))
    waiting(cache, f"job{j}", 1, spec={"resourceClaims": [{"name": "r", "resourceClaimName": f"c{j}"}]})


def behind_promise(cache: Cache, j: int) -> None:
    """A Job that fits nowhere, in a queue in which the first one waits for a pod that is going."""
    if not j:
        running(cache, "going", 1, 1, millis=32_000)
        cache.pods.releasing("going-w-0")
        waiting(cache, "first", 1, millis=32_000)
        running(cache, "run", 999, 1000, at=1, millis=3000)
    waiting(cache, f"job{j}", 1, millis=40_000 + j)


def unrelated(jobs: int, make: Callable[[Cache, int], None], *, configuration: Configuration = FILLING) -> Run:
    """Jobs that wait, and a pod of another queue comes to a node."""
    cache = cluster(1000)
    cache.queue_changed(None, queue("other"))
    for j in range(jobs):
        make(cache, j)
    steady(cache, configuration)
    turns = iter(range(10**6))

    def run() -> None:
        turn = next(turns)
        running(cache, f"other{turn}", 1, 1000, at=500 + turn, millis=100, queue_name="other")
        cycle(cache, configuration, keep=True)

    return run


def unlike(jobs: int, *, spare: int = 0, queue_name: str = "other", configuration: Configuration = TAKING) -> Run:
    """Jobs with a request of their own each, on nodes full of gangs that can lose no pod, and a pod of another queue comes.

    `spare`: the millicores of a further pod on each node, which its job can lose. `queue_name`: the queue of what runs.
    """
    cache = cluster(5000)
    cache.queue_changed(None, queue("other"))
    classes(cache)
    for gang in range(500):
        millis = 31_000 - spare
        running(cache, f"run{gang}", 10, 5000, at=10 * gang, millis=millis, queue_name=queue_name, priority="high")
    if spare:
        running(cache, "spare", 5000, 5000, minimum=1, millis=spare, queue_name=queue_name, priority="low")
    for j in range(jobs):
        waiting(cache, f"job{j}", 4, millis=2000 + j, priority="high")
    steady(cache, configuration)
    turns = iter(range(10**6))

    def run() -> None:
        turn = next(turns)
        running(cache, f"other{turn}", 1, 5000, at=7 * turn, millis=100, queue_name="other")
        _, commits = cycle(cache, configuration, keep=True)
        assert not any(commit.evictions for commit in commits)

    return run


TABLE = {
    "idle": Work("nothing to do: N running Jobs of 10 pods on N/2 nodes", 10, (2500, 5000, 10000), idle),
    "hopeless": Work("N Jobs that do not fit, nothing changed", 10, SIZES, hopeless),
    "changed": Work("N Jobs that do not fit, one node changed", 50, SIZES, partial(hopeless, change=True)),
    "loner": Work("the same beside one anti-affine pod", 50, SIZES, partial(hopeless, change=True, prepare=anti_affine)),
    "full": Work("N Jobs on full nodes, nothing changed", 10, SIZES, partial(hopeless, millis=2000, prepare=full_nodes)),
    "nodes": Work("the same, one node changed", 50, SIZES, partial(hopeless, change=True, millis=2000, prepare=full_nodes)),
    "quota": Work("N Jobs of a full queue, nothing changed", 10, SIZES, partial(hopeless, millis=2000, prepare=full_queue)),
    "queue": Work("the same, one node changed", 50, SIZES, partial(hopeless, change=True, millis=2000, prepare=full_queue)),
    "held": Work(
        "the same where actions evict",
        50,
        SIZES,
        partial(hopeless, change=True, millis=2000, prepare=full_queue, configuration=TAKING),
    ),
    "sizes": Work(
        "N Jobs that do not fit, each of another size, a node changes where actions evict",
        50,
        SIZES,
        partial(hopeless, change=True, shapes=10**6, configuration=TAKING),
    ),
    "slot": Work("N one-pod Jobs on full nodes, a pod ends", 50, SIZES, slots),
    "small": Work("the same, each Job of another size, larger than the place", 50, SIZES, partial(slots, are_large=True)),
    "rival": Work("the same where actions evict", 50, SIZES, partial(slots, configuration=TAKING)),
    "label": Work(
        "the same, each Job with a label of its own",
        50,
        SIZES,
        partial(slots, configuration=TAKING, labels=lambda j: {"run": f"job{j}"}),
    ),
    "claim": Work(
        "the same, all Jobs with one bound claim",
        50,
        SIZES,
        partial(slots, configuration=TAKING, spec=SHARED, prepare=bound_claim),
    ),
    "device": Work(
        "N Jobs with a claim on a device each, a pod comes elsewhere", 10, SIZES, partial(unrelated, make=with_device)
    ),
    "promise": Work("N Jobs behind one with a promised place, the same", 10, SIZES, partial(unrelated, make=behind_promise)),
    "names": Work("N one-pod Jobs beside a pod that minds names", 10, SIZES, partial(slots, prepare=minds_names)),
    "heartbeat": Work(
        "the same, an annotation of a node changes that nobody reads",
        10,
        SIZES,
        partial(hopeless, heartbeat=True, configuration=TAKING),
    ),
    "reservation": Work(
        "N alike Jobs wait, reservation configured, nothing changed",
        10,
        (500, 1000, 2000),
        partial(hopeless, shapes=1, millis=2000, prepare=full_nodes, configuration=with_plugin("reservation")),
    ),
    "large": Work("N nodes with 10 running pods each, a pod ends", 50, (5000, 10000, 20000), large, memory=1573),
    "victims": Work("the same where actions evict", 50, (5000, 10000, 20000), partial(large, configuration=TAKING)),
    "gang": Work("gang of N on 5,000 nodes, whole cycle", 8, (250, 500, 1000), placing),
    "anti": Work("the same beside one anti-affine pod", 10, (250, 500, 1000), lambda n: placing(n, prepare=anti_affine)),
    "taint": Work("the same with one PreferNoSchedule taint", 10, (250, 500, 1000), lambda n: placing(n, taint=True)),
    "elastic": Work("N elastic pods beyond the minimum, another Job waiting", 50, (250, 500, 1000), elastic),
    "near": Work("N pods with required pod affinity", 100, (250, 500, 1000), lambda n: placing(n, spec=NEAR)),
    "spread": Work("N pods spread over zones", 100, (250, 500, 1000), lambda n: placing(n, spec=SPREAD)),
    "preempt": Work("preempt for a gang of N on 10 N nodes", 500, (125, 250, 500), preempting),
    "lost": Work("the same, hopeless", 50, (125, 250, 500), partial(preempting, wins=False)),
    "evict": Work("as preempt, with gangpreempt", 500, (125, 250, 500), partial(preempting, action="gangpreempt")),
    "shapes": Work("N pods of 50 shapes on 5,000 nodes", 200, (2500, 5000, 10000), shapes),
    "domain": Work("gang of N GPUs in one part of the network", 100, (128, 256, 512), lambda n: domain(n, fits=True)),
    "fabric": Work("HyperNodes by pattern on N nodes, a node changes", 20, (2500, 5000, 10000), fabric),
    "never": Work("the verdict that a gang of N fits in no part", 50, (128, 256, 512), lambda n: domain(n, fits=False)),
    "reclaim": Work("reclaim of N one-GPU Jobs for another queue", 5000, (1000, 2000, 4000), reclaiming),
    "terms": Work("N Jobs with an anti-affinity label each, a node changes", 50, (250, 500, 1000), terms),
    "spaces": Work("N anti-affine Jobs, each in a namespace of its own", 1000, (250, 500, 1000), spaces),
    "vgpu": Work("N pods with a part of a GPU on 500 nodes", 200, (50, 100, 200), vgpus),
    "queues": Work("reclaim in vain for a Job in each of N queues", 100, (125, 250, 500), queues),
    "unlike": Work("N unlike Jobs on nodes full of gangs where actions evict", 1000, (125, 250, 500), unlike),
    "spare": Work("the same, each node has a pod too small to help", 1000, (125, 250, 500), partial(unlike, spare=500)),
    "gangs": Work(
        "the same in one queue, where actions evict for gangs",
        1000,
        (125, 250, 500),
        partial(unlike, spare=500, queue_name="default", configuration=TAKING_GANGS),
    ),
    "singles": Work("N one-GPU Jobs on 500 nodes of 8", 2000, (1000, 2000, 4000), singles),
}


def measured(run: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Milliseconds of `run` and of the fixed loop beside it, medians."""
    gc.collect()
    gc.freeze()
    lengths: list[float] = []
    loops: list[float] = []
    for _ in range(repeat):
        loops.append(loop())
        start = time.process_time()
        run()
        lengths.append((time.process_time() - start) * 1000)
    gc.unfreeze()
    return statistics.median(lengths), statistics.median(loops)


def lines(names: Sequence[str], repeat: int) -> Iterator[tuple[str, bool]]:
    for name in names:
        work = TABLE[name]
        found: list[tuple[float, float]] = []
        gc.collect()
        before = memory()  # what smaller sizes leave to the allocator is used again
        for size in work.sizes:
            run = work.run(size)
            gc.collect()
            took = memory() - before
            found.append(measured(run, repeat))
            del run
        costs = [cost for cost, _ in found]
        growth = math.log(max(costs[-1], 1e-3) / max(costs[0], 1e-3)) / math.log(work.sizes[-1] / work.sizes[0])
        figures = "  ".join(f"{size:>6,}: {cost:8.2f}" for size, cost in zip(work.sizes, costs, strict=True))
        ratio = costs[-1] / found[-1][1]
        is_met = costs[-1] <= work.aim
        verdict = f"aim {work.aim:g} ms {'met' if is_met else 'MISSED'}"
        if work.memory:
            is_met &= took <= work.memory
            verdict += f", {took:.0f} of {work.memory:g} MB"
        yield f"{name:<11} {work.name:<56} {figures}  n^{growth:5.2f}  {verdict}  ({ratio:.1f} loops)", is_met


def plugin_lines(repeat: int) -> Iterator[str]:
    """What each plugin costs where it is switched on: idle cycles, and a gang's, beside those without it."""
    quiet, busy = cluster(5000), cluster(5000)
    for j in range(2000):
        running(quiet, f"job{j}", 10, 5000, at=7 * j, millis=100)
    waiting(busy, "job0", 1000)

    def costs(configuration: Configuration) -> list[float]:
        steady(quiet, configuration)
        idle_run = partial(cycle, quiet, configuration, keep=True)
        return [measured(run, repeat)[0] for run in (idle_run, partial(cycle, busy, configuration))]

    default = costs(FILLING)
    yield f"{'default':<24} idle {default[0]:8.2f}         gang of 1,000 {default[1]:8.2f}"
    for name in sorted(PLUGINS):
        is_default = f"name: {name}" in CHART
        other = costs(with_plugin(name))
        more = [(a - b) if is_default else (b - a) for a, b in zip(default, other, strict=True)]
        yield f"{name:<24} idle {other[0]:8.2f} {more[0]:+8.2f} gang of 1,000 {other[1]:8.2f} {more[1]:+8.2f}" + (
            "  (default; figures are those without it)" if is_default else ""
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler_table", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLE), help=f"of: {', '.join(TABLE)}")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of which the median counts")
    parser.add_argument("--plugins", action="store_true", help="instead: what each plugin costs, 5,000 nodes")
    options = parser.parse_args(arguments)
    if options.plugins:
        for line in plugin_lines(options.repeat):
            print(line, flush=True)
        return 0
    is_all_met = True
    for line, is_met in lines(options.names, options.repeat):
        print(line, flush=True)
        is_all_met &= is_met
    return 0 if is_all_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
