"""Clusters whose nodes have cards that pods share, by one of the conventions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from .parts import options, put

VGPU = "volcano.sh/vgpu-"
KINDS = ["GPUSharingEnable", "GPUNumberEnable", "VGPUEnable", "VGPUEnable"]
TYPES = ["NVIDIA-A100", "NVIDIA-T4", "MLU"]


MIG = [("2g", 5), ("1g", 3), ("3g", 8)]  # instances of cards: name, memory


def add_mig(random: Random, case: dict) -> None:
    """Cards that the driver cuts, of some types."""
    group = [
        {"group": f"g{i}", "geometries": [profile(random) for _ in range(random.randint(1, 2))]}
        for i in range(random.randint(1, 3))
    ]
    known = [{"models": random.sample(["A100", "T4"], random.randint(1, 2)), "allowedGeometries": group}]
    case["deviceConfig"] = {"nvidia": {"knownMigGeometries": known}}
    add(random, case, kinds=["VGPUEnable"])


def profile(random: Random) -> dict:
    name, memory = random.choice(MIG)
    return {"name": name, "memory": memory, "count": random.randint(1, 3)}


def add(random: Random, case: dict, kinds: Sequence[str] = KINDS) -> None:
    kind = random.choice(kinds)
    arguments: dict = {f"deviceshare.{kind}": True}
    if random.random() < 0.6:
        arguments["deviceshare.SchedulePolicy"] = random.choice(["binpack", "spread"])
    if random.random() < 0.6:
        arguments["deviceshare.ScheduleWeight"] = random.randint(0, 5)
    if random.random() < 0.3:
        arguments["deviceshare.GPUExclusiveRules"] = [{"app": "x"}, {"app": "y", "team": "m"}]
    put(random, case, "deviceshare", ["predicate", "nodeOrder"], arguments)
    mode = "mig" if "deviceConfig" in case else "hami-core"
    cards = {
        row[0]: virtual(random, row, mode if random.random() < 0.8 else "hami-core")
        if kind == "VGPUEnable"
        else plain(random, row)
        for row in case["nodes"]
        if random.random() < 0.8
    }
    wishes: dict = {}
    labels: dict = {}
    for row in case["pods"]:
        given = options(row)
        key = (row[1], given.get("role"))
        if key not in wishes:
            wishes[key] = wish(random, kind) if random.random() < 0.6 else {}
            labels[key] = random.choice([{}, {"app": "x"}, {"app": "y", "team": "m"}])
        given |= wishes[key]
        given["labels"] = {**given.get("labels", {}), **labels[key]}
        if wishes[key] and row[2] != "-":
            hold(random, kind, given, cards.get(row[2], []), is_cut=mode == "mig")
        elif wishes[key] and kind == "VGPUEnable":
            choosy(random, given, [each for names in cards.values() for each in names])


def plain(random: Random, row: list) -> list[str]:
    number = random.randint(1, 4)
    row[3] |= {"volcano.sh/gpu-memory": number * random.randint(4, 8), "volcano.sh/gpu-number": number}
    if random.random() < 0.2:
        row[3]["annotations"] = {"volcano.sh/gpu-unhealthy-ids": str(random.randint(0, number - 1))}
    return [str(each) for each in range(number)]


def virtual(random: Random, row: list, mode: str) -> list[str]:
    names = [f"{row[0]}-{number}" for number in range(random.randint(1, 3))]
    slots = random.randint(1, 4)
    listed = [f"{name},{slots},{random.choice([8, 10])},{random.choice([*TYPES, TYPES[0]])},true,{mode}:" for name in names]
    row[3] |= {f"{VGPU}number": 4 * slots, f"{VGPU}memory": 40, f"{VGPU}cores": 400}
    row[3]["annotations"] = {"volcano.sh/node-vgpu-register": "".join(listed)}
    return names


def wish(random: Random, kind: str) -> dict:
    if kind == "GPUSharingEnable":
        return {"volcano.sh/gpu-memory": random.randint(1, 9)}
    if kind == "GPUNumberEnable":
        return {"volcano.sh/gpu-number": random.randint(1, 3)}
    found = {f"{VGPU}number": random.randint(1, 2)}
    if random.random() < 0.7:
        found[f"{VGPU}memory"] = random.randint(1, 9)
    if random.random() < 0.4:
        found[f"{VGPU}cores"] = random.choice([10, 50, 60, 100])
    return found


def hold(random: Random, kind: str, given: dict, names: list[str], *, is_cut: bool) -> None:
    """A running pod says which cards it has; some have lost that."""
    number = given.get("volcano.sh/gpu-number", given.get(f"{VGPU}number", 1))
    chosen = random.sample(names, min(len(names), number))
    if not chosen or random.random() < 0.1:
        return
    if kind == "VGPUEnable":
        each = f"NVIDIA,{given.get(f'{VGPU}memory', 8)},{given.get(f'{VGPU}cores', 0)}:"
        cuts = [f"[g{random.choice([0, 0, 1])}-{random.randint(0, 2)}]" if is_cut else "" for _ in chosen]
        told = {"volcano.sh/vgpu-ids-new": "".join(f"{name}{cut},{each}" for name, cut in zip(chosen, cuts, strict=True))}
    else:
        told = {"volcano.sh/gpu-index": ",".join(chosen)}
    given["annotations"] = {**given.get("annotations", {}), **told}


def choosy(random: Random, given: dict, names: list[str]) -> None:
    told = {}
    if names and random.random() < 0.1:
        key = random.choice(["volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"])
        told[key] = ", ".join(random.sample(names, min(len(names), 2)))
    if random.random() < 0.1:
        told[random.choice(["nvidia.com/use-gputype", "nvidia.com/nouse-gputype"])] = random.choice(["a100", "T4,V100"])
    if random.random() < 0.15:
        told["volcano.sh/vgpu-podgroup-policy"] = "spread"
    if random.random() < 0.05:
        told["volcano.sh/vgpu-mode"] = random.choice(["mig", "hami-core"])
    given["annotations"] = {**given.get("annotations", {}), **told}
