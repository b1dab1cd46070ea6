"""What deviceshare keeps of nodes within a session is what it would find out anew for each pod."""

import random

import pytest

from pyroclast_scheduler.session.node_books import NodeBook
from tests.counts import ONE_IN
from tests.scenarios.runner import feed

from .test_deviceshare import BY_MEMORY, BY_NUMBER, CARDS, VIRTUAL, Cluster

RULES = {"deviceshare.GPUExclusiveRules": [{"app": "p"}]}
SETTINGS = {
    "memory": BY_MEMORY,
    "number": BY_NUMBER,
    "virtual": VIRTUAL,
    "virtual, by score": VIRTUAL | {"deviceshare.ScheduleWeight": 10, "deviceshare.SchedulePolicy": "binpack"},
    "virtual, with rules": VIRTUAL | RULES | {"deviceshare.ScheduleWeight": 10, "deviceshare.SchedulePolicy": "spread"},
}


def node(name, draw):
    count, memory = draw.randint(1, 3), draw.choice((8, 16))
    types = [draw.choice(("NVIDIA-T4", "NVIDIA-A100")) for _ in range(count)]
    entries = "".join(f"{name}-{at},{draw.randint(1, 4)},{memory},{each},true,hami-core:" for at, each in enumerate(types))
    vgpu = {f"volcano.sh/vgpu-{each}": 100 for each in ("number", "memory", "cores")}
    return [name, 8, "16Gi", CARDS | vgpu | {"annotations": {"volcano.sh/node-vgpu-register": entries}}]


def pod(number, draw, settings):
    options = {"labels": {"app": draw.choice("pqr")}}
    if settings is BY_MEMORY:
        options["volcano.sh/gpu-memory"] = draw.choice((2, 4, 9))
    elif settings is BY_NUMBER:
        options["volcano.sh/gpu-number"] = draw.choice((1, 2))
    else:
        options |= {"volcano.sh/vgpu-number": draw.choice((1, 1, 2)), "volcano.sh/vgpu-memory": draw.choice((2, 4, 9))}
        policy = draw.choice(({}, {}, {"volcano.sh/vgpu-podgroup-policy": "spread"}, {"nvidia.com/use-gputype": "A100"}))
        options["annotations"] = policy
    return [f"p{number}", draw.choice("jk"), "-", draw.choice((0.1, 0.2)), "1M", options]


def bound(seed, settings):
    draw = random.Random(seed)
    cluster = Cluster(settings, [node(f"n{at}", draw) for at in range(draw.randint(1, 4))])
    feed(cluster.cache, {"nodes": [], "queues": [], "podgroups": [["k", "q", 1]], "pods": []})
    number, found = 0, []
    for _ in range(3):
        pods = [pod(number + at, draw, settings) for at in range(draw.randint(1, 6))]
        number += len(pods)
        found.append(cluster.session(*pods))
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_cached_device_results_give_the_same_binds_as_recomputed_results(settings, monkeypatch):
    kept = [bound(seed, settings) for seed in range(24 // ONE_IN)]
    assert any(any(sessions) for sessions in kept)
    monkeypatch.setattr(NodeBook, "_examined", anew)
    assert [bound(seed, settings) for seed in range(24 // ONE_IN)] == kept


def anew(self, task, nodes, examined=NodeBook._examined):
    self._results.clear()
    return examined(self, task, nodes)
