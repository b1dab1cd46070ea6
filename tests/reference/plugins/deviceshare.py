"""Deviceshare (scheduler-plugins 5.2 to 5.6): shared memory of cards, whole cards, virtual GPUs of one container, cut or not."""

from fractions import Fraction
from math import floor

from tests.reference.model import ALLOCATED, PENDING, PIPELINED
from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE

from .ascend import BUILT_IN, Ascend
from .mig import geometries_of, instance
from .selectors import matches, present

MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
VGPU = "volcano.sh/vgpu-"
LISTS = ["volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"]
NODE_HAS = [VGPU + each for each in ("number", "cores", "memory")]


class DeviceShare:
    def __init__(self, session, flags, arguments):
        self.session = session
        given = {key.removeprefix("deviceshare."): value for key, value in arguments.items()}
        self.policy, self.weight = given.get("SchedulePolicy", ""), given.get("ScheduleWeight", 0)
        self.rules = given.get("GPUExclusiveRules", []) if given.get("VGPUEnable") else []
        self.kind = next((key for key in ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable") if given.get(key)), None)
        self.config = session.tables.get("deviceConfig")
        chips = [] if not given.get("AscendHAMiVNPUEnable") else [BUILT_IN] if self.config is None else self.config["vnpus"]
        self.chips = [Ascend(session, self.policy, chip) for chip in chips]
        self.got = {}  # task name → [(card, memory, cores, instance)], of those that got a place
        self.batch_node_order = self.scores if self.weight > 0 else None

    def wish(self, task):
        """(cards, memory of each, percent of each, cores); None: none."""
        has = task.options.get
        match self.kind:
            case "GPUSharingEnable":
                return (1, has(MEMORY), None, 0) if has(MEMORY) else None
            case "GPUNumberEnable":
                return (has(NUMBER), 0, None, 0) if has(NUMBER) else None
            case "VGPUEnable" if VGPU + "number" in task.options or VGPU + "memory" in task.options:
                percent = has(VGPU + "memory-percentage", None if has(VGPU + "memory") else 100)
                return has(VGPU + "number", 1), has(VGPU + "memory", 0), percent, has(VGPU + "cores", 0)
        return None

    def cards(self, node):
        """[(name, memory, slots, type, geometries)]; None: no cards of the kind."""
        if self.kind != "VGPUEnable":
            memory, number = (node.allocatable.get(key, 0) // 1000 for key in (MEMORY, NUMBER))
            broken = node.annotations.get("volcano.sh/gpu-unhealthy-ids", "").split(",")
            if not memory or not number:
                return None
            return [(str(i), int(memory // number), 10**6, "", []) for i in range(int(number)) if str(i) not in broken]
        entries = [each.split(",") for each in node.annotations.get("volcano.sh/node-vgpu-register", "").split(":") if each]
        if not entries or any(len(each) < 6 for each in entries) or any(not node.allocatable.get(key) for key in NODE_HAS):
            return None
        known = [geometries_of(self.config or {}, each[3]) if entries[-1][5] == "mig" else [] for each in entries]
        return [(each[0], int(each[2]), int(each[1]), each[3], cuts) for each, cuts in zip(entries, known, strict=True)]

    def held(self, task):
        if task.name in self.got:
            return self.got[task.name]
        if self.kind != "VGPUEnable":
            names = [each for each in task.annotations.get("volcano.sh/gpu-index", "").split(",") if each]
            return [(name, task.options.get(MEMORY, 0) if self.kind == "GPUSharingEnable" else 0, 0, "") for name in names]
        parts = [each.split(",") for each in task.annotations.get("volcano.sh/vgpu-ids-new", "").replace(";", "").split(":")]
        named = [(each[0].rstrip("]").partition("["), each) for each in parts if len(each) == 4]
        return [(card, int(each[2]), int(each[3]), cut) for (card, _, cut), each in named]

    def users(self, node):
        """{card: [(task, memory, cores, instance)]}."""
        found = {}
        for task in present(self.session, node):
            for card, *what in self.held(task) if self.wish(task) else []:
                found.setdefault(card, []).append((task, *what))
        return found

    def choose(self, task, node, *, is_empty=False):
        """[(card, memory, cores, instance)]; None: not enough. `is_empty`: as if nobody used any."""
        number, memory, percent, cores = self.wish(task)
        users, fitting = {} if is_empty else self.users(node), []
        for card in sorted(self.cards(node) or [], key=lambda card: self.order(node, card, users)):
            name, size = card[:2]
            needed = memory if percent is None else size * percent // 100
            mine = users.get(name, [])
            cut, takes = "", needed
            if self.kind == "GPUNumberEnable":
                fits = not mine
            elif self.kind == "GPUSharingEnable":
                fits = max(size - sum(each[1] for each in mine), 0) >= needed
            else:
                fits = self.fits(task, card, mine, needed, cores)
                if fits and self.is_cut(node):
                    found = instance(card[4], {each[3] for each in mine if each[3]}, needed)
                    fits, (cut, takes) = found is not None, found or ("", 0)
            if fits and len(fitting) < number:
                fitting.append((name, takes, cores, cut))
        return fitting if len(fitting) == number else None

    def is_cut(self, node):
        return any(card[4] for card in self.cards(node) or [])

    def order(self, node, card, users):
        index = [each[0] for each in self.cards(node)].index(card[0])
        if self.kind != "VGPUEnable":
            return 0, index
        mine = users.get(card[0], [])
        if self.policy == "binpack":
            return -sum(each[1] for each in mine), index
        return (len(mine), index) if self.policy == "spread" else (0, -index)

    def fits(self, task, card, mine, needed, cores):
        name, size, slots, kind, cuts = card
        listed = [[each.strip() for each in task.annotations.get(key, "").split(",") if each.strip()] for key in LISTS]
        wanted, unwanted, types, others = listed
        if (wanted and name not in wanted) or name in unwanted or "NVIDIA" not in kind:
            return False
        if types and not any(each.lower() in kind.lower() for each in types):
            return False
        if any(each.lower() in kind.lower() for each in others):
            return False
        is_spread = task.annotations.get("volcano.sh/vgpu-podgroup-policy") == "spread"
        if is_spread and any(other.job == task.job and (memory or more) for other, memory, more, _ in mine):
            return False
        rules = [rule for rule in self.rules if matches(rule, task.labels)]
        if not cuts and any(matches(rule, other.labels) for rule in rules for other, *_ in mine):
            return False
        used_cores = sum(each[2] for each in mine)
        if len(mine) >= slots or size - sum(each[1] for each in mine) < needed or used_cores + cores > 100:
            return False
        return not (cores == 100 and mine) and not (used_cores == 100 and cores == 0)

    def predicate(self, task, node):
        said = [self.of_cards(task, node), *(chip.predicate(task, node) for chip in self.chips)]
        return next((each for each in said if each != OK), OK)

    def of_cards(self, task, node):
        if self.wish(task) is None:
            return OK
        if self.cards(node) is None:
            return UNRESOLVABLE
        mode = "mig" if self.is_cut(node) else "hami-core"
        if self.kind == "VGPUEnable" and task.annotations.get("volcano.sh/vgpu-mode", mode) != mode:
            return UNRESOLVABLE
        if self.choose(task, node) is not None:
            return OK
        return UNRESOLVABLE if self.choose(task, node, is_empty=True) is None else RESOLVABLE

    coupled = predicate

    def scores(self, task, nodes):
        return {
            node.name: floor(self.score(task, node) + sum(chip.score(task, node) for chip in self.chips) + Fraction(1, 2))
            * self.weight
            for node in nodes
        }

    def score(self, task, node):
        chosen = self.choose(task, node) if self.wish(task) and self.kind == "VGPUEnable" else None
        users, sizes = self.users(node), {card[0]: card[1] for card in self.cards(node) or []}
        total = Fraction(0)
        for name, memory, *_ in chosen or []:
            mine = users.get(name, [])
            if self.policy == "binpack":
                total += Fraction(100 * (sum(each[1] for each in mine) + memory), sizes[name])
            if self.policy == "spread" and not mine:
                total += 100
        return total

    def moved(self, task, before):
        for chip in self.chips:
            chip.moved(task, before)
        if task.status in {ALLOCATED, PIPELINED} and self.wish(task):
            node = next(node for node in self.session.nodes if node.name == task.node)
            self.got[task.name] = []
            self.got[task.name] = self.choose(task, node) or []
        elif task.status == PENDING:
            self.got.pop(task.name, None)
