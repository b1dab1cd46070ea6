"""Clusters whose nodes have chips of Ascend, of one kind or two, beside cards of another convention or alone."""

from __future__ import annotations

import json
from random import Random

from .devices import add as add_cards
from .parts import options, put

CHIPS = [
    {"commonWord": "Ascend310P", "memoryAllocatable": 21, "memoryCapacity": 24, "templates": [3, 6, 12]},
    {"commonWord": "Ascend910B", "memoryAllocatable": 64, "memoryCapacity": 64, "templates": [32, 16]},
]


def add(random: Random, case: dict) -> None:
    if random.random() < 0.3:
        add_cards(random, case)
        arguments = case["arguments"]["deviceshare"]
    else:
        arguments = {"deviceshare.ScheduleWeight": random.choice([0, 1, 5])}
        arguments["deviceshare.SchedulePolicy"] = random.choice(["", "binpack", "spread"])
        put(random, case, "deviceshare", ["predicate", "nodeOrder"], arguments)
    arguments["deviceshare.AscendHAMiVNPUEnable"] = True
    chips = [configured(chip) for chip in random.choice([CHIPS, CHIPS[1:], CHIPS[1:], CHIPS[:1]])]
    if len(chips) == 1 and random.random() < 0.2:  # what is built in has other sizes
        chips = [configured({**CHIPS[0], "memoryAllocatable": 21527, "memoryCapacity": 24576, "templates": [3072, 6144, 12288]})]
    else:
        case["deviceConfig"] = {"vnpus": chips}
    there: dict = {}
    for row in case["nodes"]:
        for chip in chips:
            if random.random() < 0.8:
                there.setdefault(row[0], {})[chip["commonWord"]] = register(random, row, chip)
    wishes: dict = {}
    for row in case["pods"]:
        given = options(row)
        key = (row[1], given.get("role"))
        if key not in wishes:
            wishes[key] = wish(random, random.choice(chips)) if random.random() < 0.7 else ("", {})
        word, wanted = wishes[key]
        given |= wanted
        names = there.get(row[2], {}).get(word, [])
        if wanted and names and random.random() < 0.9:
            hold(random, given, word, names)


def configured(chip: dict) -> dict:
    name = f"huawei.com/{chip['commonWord']}"
    templates = [{"name": f"vir{memory}", "memory": memory} for memory in chip["templates"]]
    return {**chip, "resourceName": name, "resourceMemoryName": f"{name}-memory", "templates": templates}


def register(random: Random, row: list, chip: dict) -> list[str]:
    word, has_network = chip["commonWord"], random.random() < 0.7
    names = [f"{row[0]}-{word}-{i}" for i in range(random.randint(1, 4))]
    listed = [
        {"id": name, "count": random.choice([1, 2, 4, 7]), "devmem": chip["memoryAllocatable"], "health": random.random() < 0.9}
        | ({"custominfo": {"NetworkID": random.randint(0, 1)}} if has_network else {})
        for name in names
    ]
    row[3][chip["resourceName"]] = 7 * len(names)
    row[3].setdefault("annotations", {})[f"hami.io/node-register-{word}"] = json.dumps(listed)
    return names


def wish(random: Random, chip: dict) -> tuple[str, dict]:
    found = {}
    if random.random() < 0.8:
        found[chip["resourceName"]] = random.choice([1, 1, 1, 2, 3])
    if not found or random.random() < 0.6:
        sizes = [each["memory"] for each in chip["templates"]]
        found[chip["resourceMemoryName"]] = random.choice([1, *sizes, chip["memoryAllocatable"], chip["memoryCapacity"] + 1])
    return chip["commonWord"], found


def hold(random: Random, given: dict, word: str, names: list[str]) -> None:
    number = min(given.get(f"huawei.com/{word}", 1), len(names))
    memory = given.get(f"huawei.com/{word}-memory", 12)
    text = "".join(f"{name},{word},{memory},0:" for name in random.sample(names, number)) + ";"
    given["annotations"] = {**given.get("annotations", {}), f"hami.io/{word}-devices-allocated": text}
