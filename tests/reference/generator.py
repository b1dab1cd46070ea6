"""Random clusters, as cases of `tests/scenarios`: small ones, in which everything is scarce."""

from __future__ import annotations

from random import Random

HOST = "kubernetes.io/hostname"
BRANCHES = [["root/a", "1/2"], ["root/b", "1/1"], ["root/c/d", "1/3/2"], ["root/c/e", "1/3/1"]]
APPS = ["x", "y", "z"]
TIER_ONE = ["priority", "gang", "conformance", "sla"]
ALL_FLAGS = {
    "gang": ["jobOrder", "jobReady", "jobPipelined", "jobStarving", "preemptable", "reclaimable"],
    "priority": ["jobOrder", "taskOrder", "jobStarving", "preemptable"],
    "conformance": ["preemptable", "reclaimable"],
    "drf": ["jobOrder", "preemptable"],
    "proportion": ["queueOrder", "overused", "allocatable", "preemptive", "reclaimable", "jobEnqueued"],
    "capacity": ["queueOrder", "allocatable", "preemptive", "reclaimable", "jobEnqueued"],
    "predicates": ["predicate"],
    "nodeorder": ["nodeOrder"],
    "binpack": ["nodeOrder"],
    "overcommit": ["jobEnqueued"],
    "sla": ["jobOrder", "jobEnqueued", "jobPipelined"],
    "nodegroup": ["predicate", "nodeOrder"],
    "tdm": ["predicate", "nodeOrder", "preemptable", "jobOrder", "jobPipelined", "jobStarving"],
    "resource-strategy-fit": ["nodeOrder"],
}
ACTIONS = [
    ["allocate"],
    ["allocate", "backfill"],
    ["enqueue"],
    ["enqueue", "allocate", "backfill"],
    ["preempt"],
    ["allocate", "preempt"],
    ["reclaim"],
    ["enqueue", "allocate", "reclaim"],
    ["enqueue", "allocate", "backfill", "reclaim", "preempt"],
    ["gangpreempt"],
    ["gangreclaim"],
]


def make(seed: int) -> dict:
    """The case of a seed."""
    return _Maker(Random(seed)).case(seed)


class _Maker:
    """`theme`: what the cluster is about; `preempt` and `reclaim` are full, with starving jobs that matter more."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.theme = random.choice(["any", "any", "preempt", "reclaim"])
        self.has_gpu = random.random() < 0.3
        self.is_coupled = random.random() < 0.4  # pods speak of other pods

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def case(self, seed: int) -> dict:
        profile = self.profile()
        nodes = [self.node(f"n{number}") for number in range(self.random.randint(1, 6 if self.theme == "any" else 3))]
        self.is_tree = any("hierarchy" in flags for tier in profile["tiers"] for listing in tier for flags in listing.values())
        queues = self.queues()
        parents = {row[1].get("parent") or "root" for row in queues if row[0] != "root"} if self.is_tree else set()
        leaves = [row[0] for row in queues if row[0] not in parents]
        groups, pods, free = [], [], {row[0]: [row[1] * 1000, row[2], row[3]["pods"]] for row in nodes}
        for number in range(self.random.randint(1 if self.theme == "any" else 3, 6)):
            self.job(f"j{number}", self.random.choice(leaves), groups, pods, free, nodes)
        started = {row[0] for row in groups if row[3].get("phase") == "Running"}
        for row in pods:  # the places that are kept for failed members are tested by histories, and are no rule of the reference
            if row[1] in started and row[5].get("phase") == "Failed":
                row[5]["phase"] = "Succeeded"
        return {"id": f"random-{seed}", "profile": profile, "nodes": nodes, "queues": queues, "podgroups": groups, "pods": pods}

    # -- configuration ---------------------------------------------------------------------------------------------------

    def profile(self) -> dict:
        likely = {"sla": 0.25} if self.theme == "any" else {"sla": 0.05, "gang": 1, "priority": 0.9}
        first = [name for name in TIER_ONE if self.chance(likely.get(name, 0.8))]
        quota = self.random.choice(
            ["proportion", "capacity", "capacity", "tree"]
            + [None] * (self.theme != "reclaim")
            + [None, None] * (self.theme == "preempt")
        )
        second = ["predicates"] + [name for name in ("overcommit", "drf", "nodeorder", "binpack") if self.chance(0.5)]
        second += [name for name in ("nodegroup", "tdm", "resource-strategy-fit") if self.chance(0.07)]
        self.groups = "nodegroup" in second
        self.zones = "tdm" in second
        self.branches = quota is None and self.theme != "preempt" and "drf" in second
        if quota:
            second.append("capacity" if quota == "tree" else quota)
        self.random.shuffle(first)
        self.random.shuffle(second)
        tiers = [first, second] if self.chance(0.7) else [first + second]
        is_thin = self.chance(0.3 if self.theme == "any" else 0.15)
        listed = []
        for tier in tiers:
            made = []
            for name in tier:
                flags = [flag for flag in ALL_FLAGS[name] if name == "predicates" or not is_thin or self.chance(0.7)]
                if name == "capacity" and quota == "tree":
                    flags.append("hierarchy")
                if name == "drf" and self.branches:
                    flags += ["hierarchy", "queueOrder", "reclaimable"]
                made.append({name + self.arguments(name, quota): flags})
            if made:
                listed.append(made)
        choice = [
            actions
            for actions in ACTIONS
            if (self.theme == "any" or any(self.theme in action for action in actions))
            and (self.theme == "any" or "enqueue" not in actions)
        ]
        return {"actions": self.random.choice(choice), "tiers": listed}

    def arguments(self, name: str, quota: str | None) -> str:
        given = {}
        if name == "nodeorder":
            for part in ("leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration"):
                if self.chance(0.3):
                    given[f"{part}.weight"] = self.random.randint(0, 5)
            if self.chance(0.3):
                given["podtopologyspread.weight"] = self.random.randint(0, 5)
        if name == "binpack" and self.chance(0.5):
            given = {"binpack.weight": self.random.randint(0, 10), "binpack.cpu": self.random.randint(-1, 5)}
            if self.has_gpu:
                given |= {"binpack.resources": "x/gpu", "binpack.resources.x/gpu": self.random.randint(-1, 5)}
        if name == "overcommit" and self.chance(0.5):
            given = {"overcommit-factor": self.random.choice([0.5, 1, 1.5, 2])}
        if name == "sla" and self.chance(0.7):
            given = {"sla-waiting-time": self.random.choice(["30m", "1h", "2h", "3h"])}
        if name == "nodegroup" and self.chance(0.5):
            given = {key: self.random.choice(["true", "false"]) for key in ("strict", "enablePreferredOrder")}
        if name == "tdm":
            given = {"tdm.revocable-zone.za": "0:00-0:00"}
        if name == "capacity" and quota == "tree" and self.chance(0.5):
            given = {"ancestorReclaimLevel": self.random.randint(0, 3)}
        return f"({', '.join(f'{key}={value}' for key, value in given.items())})" if given else ""

    # -- objects ---------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> list:
        options = {"pods": self.random.choice([2, 3, 5, 10]), "labels": {HOST: name, "zone": self.random.choice(["a", "b", "c"])}}
        if self.chance(0.1):
            del options["labels"]["zone"]
        if self.chance(0.3):
            options["labels"]["disk"] = self.random.choice(["ssd", "hdd"])
        if self.groups and self.chance(0.8):
            options["labels"]["volcano.sh/nodegroup-name"] = self.random.choice(["g1", "g2", "g3"])
        if self.zones and self.chance(0.4):
            options["labels"]["volcano.sh/revocable-zone"] = self.random.choice(["za", "zb"])
        if self.chance(0.15):
            options["taints"] = [self.random.choice(["k=v:NoSchedule", "k=w:PreferNoSchedule", "m=v:NoExecute"])]
        if self.chance(0.05):
            options["unschedulable"] = True
        if self.has_gpu and self.chance(0.6):
            options["x/gpu"] = self.random.randint(1, 4)
        return [name, self.random.randint(1, 10), self.random.randint(1, 12) * 10**9, options]

    def amounts(self, least: int, most: int) -> dict:
        found = {"cpu": self.random.randint(least, most), "memory": f"{self.random.randint(least, most)}G"}
        if self.chance(0.15):
            del found[self.random.choice(["cpu", "memory"])]
        if self.has_gpu and self.chance(0.3):
            found["x/gpu"] = self.random.randint(0, 3)
        if self.chance(0.1):
            found["pods"] = self.random.randint(1, 8)
        return found

    def queues(self) -> list:
        rows = []
        for number in range(self.random.randint(*self.queue_counts())):
            options = {"weight": self.random.randint(0 if self.chance(0.1) else 1, 4)}
            if self.chance(0.3):
                options["priority"] = self.random.randint(-1, 3)
            for key, part, most in (("capability", 0.4, 16), ("deserved", 0.6, 10), ("guarantee", 0.2, 3)):
                if self.chance(part if self.theme == "any" or key == "deserved" else part / 3):
                    options[key] = self.amounts(0 if self.chance(0.2) else 1, most)
            if self.chance(0.1 if self.theme == "any" else 0.02):
                options["state"] = "Closed"
            if self.chance(0.1):
                options["reclaimable"] = False
            if self.chance(0.3):
                options["created"] = self.random.randint(0, 5)
            if self.groups and self.chance(0.8):
                options["affinity"] = self.affinity()
            if self.branches:
                options["hier"] = self.random.choice(BRANCHES)
            if self.is_tree and rows and self.chance(0.5):
                options["parent"] = self.random.choice(rows)[0]
            rows.append([f"q{number}", options])
        if self.is_tree and self.chance(0.98):
            rows.insert(0, ["root", {"capability": self.amounts(8, 30)} if self.chance(0.2) else {}])
        return rows

    def queue_counts(self) -> tuple[int, int]:
        if self.branches:  # of more the order depends on when each was looked at last
            return 1, 2
        return {"any": (1, 4), "preempt": (1, 2), "reclaim": (2, 4)}[self.theme]

    def affinity(self) -> dict:
        lists = [self.random.sample(["g1", "g2", "g3"], self.random.randint(0, 2)) for _ in range(4)]
        kinds = [f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")]
        return {
            "nodeGroupAffinity": dict(zip(kinds, lists[:2], strict=True)),
            "nodeGroupAntiAffinity": dict(zip(kinds, lists[2:], strict=True)),
        }

    def job(self, name: str, queue: str, groups: list, pods: list, free: dict, nodes: list) -> None:
        is_full = self.theme != "any"
        size = self.random.randint(1, 5)
        is_running = self.chance(0.5) if not is_full else (bool(groups) and groups[-1][3]["phase"] != "Running") or not groups
        size += 2 * (is_full and is_running)
        minimum = self.random.randint(
            0 if not is_full or is_running else 1, size if not is_full or not is_running else min(size, 2)
        )
        waiting = ["Inqueue", "Inqueue", "Pending"] if not is_full else ["Inqueue"]
        options = {"phase": "Running" if is_running else self.random.choice(waiting)}
        if self.chance(0.6):
            options["class"] = self.random.choice([1, 5, 10] if not is_full else [1, 2] if is_running else [2, 5, 10])
        if self.chance(0.5):
            options["minRes"] = self.amounts(0, 8)
        if self.chance(0.4):
            options["created"] = self.random.randint(0, 5)
        if self.chance(0.1):
            options["annotations"] = {"sla-waiting-time": self.random.choice(["10m", "90m", "5h", "-1h"])}
        names = self.random.choice([[""], ["a", "b"]])
        templates = [self.template(role) for role in names]
        members = [self.random.choice(templates) for _ in range(size)]
        if names != [""] and self.chance(0.5):
            options["roles"] = {role: self.random.randint(0, 2) for role in names}
        groups.append([name, queue, minimum, options])
        for number, (cpu, memory, given) in enumerate(members):
            given = dict(given)
            where = "-"
            if is_running and self.chance(0.8 if not is_full else 0.95):
                where = self.place(cpu, memory, given, free, nodes)
            self.state(given, where)
            pods.append([f"{name}-{number}", name, where, cpu, memory, given])

    def template(self, role: str) -> tuple:
        options = {"role": role} if role else {}
        least = 0 if self.theme == "any" else 1
        cpu, memory = self.random.randint(least, 4), f"{self.random.randint(least, 4)}G"
        if self.chance(0.15 if self.theme == "any" else 0.05):
            cpu, memory = 0, 0
        elif self.has_gpu and self.chance(0.3):
            options["x/gpu"] = self.random.randint(0, 2)
        if self.chance(0.15):
            options["sel"] = self.random.choice([{"zone": "a"}, {"disk": "ssd"}, {"disk": "hdd", "zone": "b"}])
        if self.chance(0.1):
            operator = self.random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
            term = {"key": self.random.choice(["zone", "disk"]), "op": operator}
            if operator in {"In", "NotIn"}:
                term["values"] = self.random.sample(["a", "b", "ssd", "hdd"], 2)
            options["requireNode"] = [term]
        if self.chance(0.2):
            options["tolerate"] = self.random.choice(["k=v:NoSchedule", "k:", "m:NoExecute", "k=w:PreferNoSchedule"])
        if self.chance(0.2):
            options["prefer"] = {self.random.choice(["zone", "disk"]): self.random.choice(["a", "ssd"]), "weight": 10}
        if self.chance(0.1):
            options["hostPort"] = self.random.choice([80, 81])
        if self.chance(0.1):
            options["never"] = True
        if self.zones and self.chance(0.5):
            options["annotations"] = self.random.choice([{"volcano.sh/revocable-zone": "*"}, {"volcano.sh/preemptable": "true"}])
        if self.is_coupled:
            self.couple(options)
        return cpu, memory, options

    def couple(self, options: dict) -> None:
        options["labels"] = {"app": self.random.choice(APPS)}
        key = self.random.choice([HOST, "zone"])
        if self.chance(0.2):
            options["affine"] = {"app": self.random.choice(APPS), "key": key}
        if self.chance(0.25):
            options["anti"] = {"app": self.random.choice(APPS), "key": key}
        if self.chance(0.25):
            options["preferPod"] = {"app": self.random.choice(APPS), "key": key, "weight": self.random.choice([1, 50, 100])}
        if self.chance(0.3):
            when = self.random.choice(["DoNotSchedule", "ScheduleAnyway"])
            match = {"app": self.random.choice(APPS)}
            options["spread"] = {"key": key, "maxSkew": self.random.randint(1, 2), "when": when, "match": match}
            if when == "DoNotSchedule" and self.chance(0.2):
                options["spread"]["minDomains"] = self.random.randint(1, 4)

    def place(self, cpu: int, memory: str | int, options: dict, free: dict, nodes: list) -> str:
        """A node with room; sometimes one without."""
        wanted = [cpu * 1000, int(str(memory).rstrip("G")) * (10**9 if str(memory).endswith("G") else 1), 1]
        having = [row for row in nodes if all(has >= want for has, want in zip(free[row[0]], wanted, strict=True))]
        row = self.random.choice(having or nodes)
        left = free[row[0]]
        if all(has >= want for has, want in zip(left, wanted, strict=True)) or self.chance(0.02):
            free[row[0]] = [has - want for has, want in zip(left, wanted, strict=True)]
            return row[0]
        return "-"

    def state(self, options: dict, where: str) -> None:
        if self.chance(0.2):
            options["prio"] = self.random.choice([0, 5, 10])
        if self.chance(0.15):
            options["pre"] = False
        if where != "-":
            if self.chance(0.15 if self.theme == "any" else 0.03):
                options["releasing"] = True
            elif self.chance(0.1):
                options["phase"] = self.random.choice(["Pending", "Succeeded", "Failed"])
        elif self.chance(0.05):
            options["gates"] = ["example.com/hold"]
        if self.chance(0.1):
            options["created"] = self.random.randint(0, 5)


def covered(case: dict) -> set[tuple[str, str]]:
    """The pairs of action and plugin that a case is about."""
    profile = case["profile"]
    plugins = [head.partition("(")[0] for tier in profile["tiers"] for listing in tier for head in listing]
    return {(action, plugin) for action in profile["actions"] for plugin in plugins}


def put(random: Random, case: dict, name: str, flags: list[str], arguments: dict | None = None) -> None:
    """Add a plugin to some tier of the profile, at some place."""
    tier = random.choice(case["profile"]["tiers"])
    tier.insert(random.randint(0, len(tier)), {name: flags})
    if arguments:
        case.setdefault("arguments", {})[name] = arguments


def options(row: list) -> dict:
    """The options of a pod, to be changed."""
    return row[5]
