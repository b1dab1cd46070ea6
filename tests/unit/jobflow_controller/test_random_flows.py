"""Random flows of all features under virtual time, with failures, restarts and hands that delete: each Job is made as often as it
must be, only after what it depends on, and the end follows from what became of the Jobs.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import looptime as virtual
import pytest

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, Key
from tests.counts import examples
from tests.unit.ending import ended
from tests.unit.jobflow_controller.world import NS, SPEC, World

COMPLETED, FAILED, TERMINATED, SKIPPED = "Completed", "Failed", "Terminated", "Skipped"


@dataclass
class Plan:
    """What the entries of a flow are, what becomes of each Job at each try, and what must come of it all."""

    entries: list[dict[str, Any]]
    ends: dict[str, list[str]]
    expected: dict[str, str] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    fatal: bool = False
    policy: str = "Continue"
    valueless: set[str] = field(default_factory=set)
    """Loops that fail because the entry that they read has put out nothing."""

    def entry(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self.entries if entry["name"] == name)


def draw(rng: random.Random) -> Plan:
    """A flow of up to 60 entries whose references go backwards; the first of each sort of choice is made for the next entries."""
    names = [f"e{number}" for number in range(rng.randint(1, 60))]
    plan = Plan([], {})
    is_lucky = rng.random() < 0.5  # of a flow that fails it is open how far the others came
    owed: dict[str, str] = {}  # entries that a control statement chooses: by whom
    for position, name in enumerate(names):
        before = [other for other in names[:position] if other not in owed or rng.random() < 0.7]
        entry: dict[str, Any] = {"name": name}
        if before and rng.random() < 0.8:
            targets = rng.sample(before, min(len(before), rng.randint(1, 3)))
            entry["dependsOn"] = {"targets": targets, **({"strategy": "any"} if rng.random() < 0.25 else {})}
        later = [other for other in names[position + 1 : position + 4] if other not in owed]
        if before and later and rng.random() < 0.2:
            target = rng.choice(before)
            if rng.random() < 0.5:
                entry["if"] = {"target": target, "phase": rng.sample([COMPLETED, FAILED, TERMINATED], rng.randint(1, 2))}
                if rng.random() < 0.7:
                    entry["else"] = [later[0]]
                    owed[later[0]] = name
            else:
                entry["switch"] = {"on": target, "cases": [{"phase": COMPLETED, "entries": [later[0]]}]}
                owed[later[0]] = name
                if len(later) > 1:
                    entry["switch"]["default"] = [later[1]]
                    owed[later[1]] = name
        reads = rng.choice(before) if before and rng.random() < 0.3 else ""
        if reads and "if" not in entry and "for" not in plan.entry(reads):
            if rng.random() < 0.5:
                limit = rng.randint(0, 9)
                entry["if"] = {"expression": f"has(entries.{reads}.outputs) && entries.{reads}.outputs.n > {limit}"}
                if later and later[0] not in owed:
                    entry["else"] = [later[0]]
                    owed[later[0]] = name
            else:
                entry["for"] = {"itemsFrom": f"entries.{reads}.outputs.n % 4", "parallel": rng.randint(1, 3)}
        if rng.random() < 0.2 and "for" not in entry:
            entry["for"] = {"count": rng.randint(0, 4), "parallel": rng.randint(1, 3)}
            if entry["for"]["parallel"] == 1 and rng.random() < 0.5:  # of rounds in parallel it is open how many have begun
                entry["for"]["until"] = rng.choice(["last.index == {}", "rounds.size() > {}"]).format(rng.randint(0, 4))
        if rng.random() < 0.3:
            entry["retry"] = {"limit": rng.randint(1, 3), "backoff": "2s"}
        plan.entries.append(entry)
        bad = 0.0 if is_lucky else rng.choice([0.0, 0.1, 0.3])
        for job in jobs_of(entry):
            plan.ends[job] = [rng.choice([FAILED, TERMINATED]) if rng.random() < bad else COMPLETED for _ in range(5)]
        depends = entry.get("dependsOn")
        if depends and rng.random() < 0.2:  # on targets that complete, or it would be left to chance what is seen of them
            depends["probe"] = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
            for job in [job for name in depends["targets"] for job in jobs_of(plan.entries[names.index(name)])]:
                plan.ends[job] = [COMPLETED] * 5
    plan.policy = rng.choice(["Continue", "Cancel"])
    rng.shuffle(plan.entries)
    return plan


_READS = re.compile(r"entries\.(e\d+)\.outputs\.n (?:% 4|> (\d+))")


def value_of(entry: str) -> int:
    """What the Job of an entry puts out as `n`."""
    return int(entry[1:]) * 7 % 10


def asked_by(entry: dict[str, Any]) -> list[str]:
    """The entries of which any outcome is enough."""
    condition = entry.get("if", {})
    reads = _READS.search(condition.get("expression", ""))
    asked = [condition.get("target"), reads and reads[1], entry.get("switch", {}).get("on")]
    asked += entry.get("dependsOn", {}).get("targets", ()) if reads else ()
    return [each for each in asked if each]


def needed_by(entry: dict[str, Any]) -> list[str]:
    """The entry whose value is the number of rounds."""
    reads = _READS.search(entry.get("for", {}).get("itemsFrom", ""))
    return [reads[1]] if reads else []


def jobs_of(entry: dict[str, Any]) -> list[str]:
    """The Jobs of an entry in order, those that a loop comes to if none fails."""
    loop = entry.get("for")
    if loop is None:
        return [f"f-{entry['name']}"]
    if needed := needed_by(entry):
        return [f"f-{entry['name']}-{index}" for index in range(value_of(needed[0]) % 4)]
    rounds = min(loop["count"], int(loop["until"].split()[-1]) + 1) if "until" in loop else loop["count"]
    return [f"f-{entry['name']}-{index}" for index in range(rounds)]


def foretell(plan: Plan) -> None:
    """What must come of each entry, worked out without time: in the order of the names, which is that of the references."""
    entries = {entry["name"]: entry for entry in plan.entries}
    asked = {name for entry in plan.entries for name in asked_by(entry)}
    chosen: dict[str, set[str] | None] = {}
    for name in sorted(entries, key=lambda each: int(each[1:])):
        entry = entries[name]
        plan.expected[name] = outcome(plan, entry, entries, chosen)
        for job, tries in (attempts(plan, entry) if plan.expected[name] != SKIPPED else {}).items():
            plan.tries[job] = tries
        if plan.expected[name] in (FAILED, TERMINATED) and name not in asked:
            plan.fatal = True


def outcome(plan: Plan, entry: dict[str, Any], entries: dict[str, Any], chosen: dict[str, Any]) -> str:
    name, seen = entry["name"], plan.expected
    condition, switch = entry.get("if"), entry.get("switch")
    chosen[name] = set()
    choosers = [other for other, body in entries.items() if name in [*body.get("else", ()), *chooses(body)]]
    if choosers and not any(name in chosen[other] for other in choosers):
        return SKIPPED
    targets = entry.get("dependsOn", {}).get("targets", [])
    asks, needs = asked_by(entry), needed_by(entry)
    waits = [*targets, *asks, *needs]
    if waits and all(seen[other] == SKIPPED for other in waits):
        return SKIPPED
    fine = [seen[other] == COMPLETED or (seen[other] != SKIPPED and other in asks) for other in targets]
    gone = [seen[other] == SKIPPED for other in targets]
    if entry.get("dependsOn", {}).get("strategy") == "any":
        if targets and not any(fine) and not all(gone):
            return SKIPPED
    elif not all(a or b for a, b in zip(fine, gone, strict=True)):
        return SKIPPED
    if any(seen[other] in (FAILED, TERMINATED) and other not in asks for other in needs):
        return SKIPPED
    if condition and not holds_of(condition, seen):
        chosen[name] = set(entry.get("else", ()))
        return SKIPPED
    if any(seen[other] != COMPLETED for other in needs):
        plan.valueless.add(name)
        return FAILED
    if switch:
        case = switch["cases"][0]
        holds = seen[switch["on"]] == case["phase"]
        chosen[name] = set(case["entries"] if holds else switch.get("default", ()))
    ends = []
    for job, tries in attempts(plan, entry).items():
        ends.append(plan.ends[job][tries - 1])
    bad = [end for end in ends if end != COMPLETED]
    return bad[0] if bad else COMPLETED


def holds_of(condition: dict[str, Any], seen: dict[str, str]) -> bool:
    reads = _READS.search(condition.get("expression", ""))
    if reads is None:
        return seen[condition["target"]] in condition["phase"]
    name, limit = reads[1], int(reads[2])
    return seen[name] == COMPLETED and value_of(name) > limit


def chooses(entry: dict[str, Any]) -> list[str]:
    switch = entry.get("switch", {})
    return [name for case in switch.get("cases", ()) for name in case["entries"]] + list(switch.get("default", ()))


def attempts(plan: Plan, entry: dict[str, Any]) -> dict[str, int]:
    """How often each Job of an entry is made; a loop with rounds in parallel may have begun more than its first bad one."""
    limit = entry.get("retry", {}).get("limit", 0)
    made: dict[str, int] = {}
    for job in jobs_of(entry):
        tries = 1
        while plan.ends[job][tries - 1] != COMPLETED and tries <= limit:
            tries += 1
        made[job] = tries
        if plan.ends[job][tries - 1] != COMPLETED and entry.get("for", {}).get("parallel", 1) == 1:
            break
    return made


class JobController:
    """Runs Jobs as planned; some are removed when they have completed, some are deleted by hand while they run."""

    def __init__(self, world: World, plan: Plan, rng: random.Random) -> None:
        self.world, self.plan, self.rng = world, plan, rng
        self.deleted: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.last: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.entries = {entry["name"]: entry for entry in plan.entries}
        self.entry_of = {job: entry for entry in plan.entries for job in jobs_of(entry)}
        self.too_early: list[str] = []
        world.on_job = self._made

    def _made(self, name: str) -> None:
        """A Job was made: what its entry depends on must have come so far."""
        entry = self.entry_of[name]
        depends = entry.get("dependsOn", {})
        targets = depends.get("targets", ())
        asks = [*asked_by(entry), *needed_by(entry)]
        over = [self._is_over(target) for target in targets]
        if "probe" not in depends and over and not (any if depends.get("strategy") == "any" else all)(over):
            self.too_early.append(f"{name} before {targets}")
        if not all(map(self._is_over, asks)):
            self.too_early.append(f"{name} before {asks}")

    def _is_over(self, entry: str) -> bool:
        """Whether an entry has the outcome that it must come to."""
        want, jobs = self.plan.expected[entry], jobs_of(self.entries[entry])
        if want == COMPLETED:
            return all(self.last.get(job) == COMPLETED for job in jobs)
        bad = [job for job in jobs if self.last.get(job) in (FAILED, TERMINATED)]
        return (
            want == SKIPPED or entry in self.plan.valueless or any(self.ended[job] >= self.plan.tries.get(job, 0) for job in bad)
        )

    async def run(self) -> None:
        begun: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                for (kind, key), body in list(self.world.objects.items()):
                    if kind is JOBS and body["metadata"]["uid"] not in begun:
                        begun.add(body["metadata"]["uid"])
                        group.create_task(self._live(key.name, body["metadata"]["uid"]))
                self._obey()
                await asyncio.sleep(0.05)

    def _obey(self) -> None:
        """Commands terminate Jobs of a flow that has failed, once each."""
        for command in self.world.commands:
            name, uid = command["target"]["name"], command["target"]["uid"]
            assert self.plan.policy == "Cancel"
            assert self.world.flow()["status"]["state"]["phase"] == "Failed"
            if self._is_there(name, uid):
                self.cancelled.add(uid)
                present = (self.world.job(name) or {}).get("status", {}).get("state", {}).get("phase")
                if present not in (COMPLETED, FAILED, TERMINATED):
                    self.world.enter(name, TERMINATED)
        self.world.commands.clear()

    async def _live(self, name: str, uid: str) -> None:
        steps = ["Pending", "Running", self.plan.ends[name][min(self.ended[name], 4)]]
        for phase in steps:
            await asyncio.sleep(self.rng.random() * 2)
            if not self._is_there(name, uid):
                return
            counts = {"t": {"phase": {"Running": 1}}} if phase == "Running" else {"t": None}
            self.last[name] = phase  # before anybody can know
            if phase not in ("Pending", "Running"):
                self.ended[name] += 1
            entry = self.entry_of[name]["name"]
            outputs = [{"task": "t", "index": 0, "message": f'{{"n": {value_of(entry)}}}'}] if phase == COMPLETED else None
            self.world.enter(name, phase, taskStatusCount=counts, outputs=outputs)
            if phase == "Running" and self.rng.random() < 0.05:
                self.deleted[name] += 1
                self.world.remove(JOBS, Key(NS, name))
                return
        if steps[-1] == COMPLETED and self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.random() * 3 + 1)
            if self._is_there(name, uid) and self._is_recorded(name):  # before, nobody could know how it ended
                self.world.remove(JOBS, Key(NS, name))

    def _is_recorded(self, name: str) -> bool:
        listed = (self.world.flow().get("status") or {}).get("jobStatusList") or ()
        return any(each["name"] == name and each.get("state") == COMPLETED for each in listed)

    def _is_there(self, name: str, uid: str) -> bool:
        job = self.world.job(name)
        return job is not None and job["metadata"]["uid"] == uid and uid not in self.cancelled


async def live_through(seed: int) -> None:
    rng = random.Random(seed)
    plan = draw(rng)
    foretell(plan)
    world = World(rng, faults=rng.choice([0.0, 0.05]))
    world.put(JOB_FLOWS, "f", spec={"flows": plan.entries, "failurePolicy": plan.policy})
    for entry in plan.entries:
        if rng.random() < 0.9 or "switch" in entry:  # without a template such an entry only chooses
            world.put(JOB_TEMPLATES, entry["name"], spec=SPEC)
    jobs = JobController(world, plan, rng)
    driving = asyncio.get_running_loop().create_task(jobs.run())
    kills = rng.choice([0, 0, 3])
    for _ in range(kills):
        async with world.controller():
            await asyncio.sleep(rng.random() * 4)
    for entry in plan.entries:
        if (JOB_TEMPLATES, Key(NS, entry["name"])) not in world.objects:
            world.put(JOB_TEMPLATES, entry["name"], spec=SPEC)
    async with world.controller():
        async with asyncio.timeout(3000):
            while world.flow().get("status", {}).get("state", {}).get("phase") not in ("Succeed", "Failed"):
                await asyncio.sleep(0.5)
        await asyncio.sleep(5 if plan.policy == "Continue" else 30)
    assert not driving.done()
    check(world, plan, jobs)
    if plan.fatal:
        await resumed(world, plan, jobs, rng)
    await ended(driving)


async def resumed(world: World, plan: Plan, jobs: JobController, rng: random.Random) -> None:
    """Resume the failed flow after what made Jobs fail is mended, while controllers are killed: it succeeds, and Jobs that had
    completed and depend on no failure are not made again.
    """
    conditions = world.flow()["status"]["conditions"]
    again = {name for name in plan.expected if conditions.get(f"f-{name}", {}).get("phase") in (FAILED, TERMINATED)}
    for _ in plan.entries:
        for entry in plan.entries:
            waits = [*entry.get("dependsOn", {}).get("targets", ()), *asked_by(entry), *needed_by(entry)]
            chosen = [other["name"] for other in plan.entries if entry["name"] in [*other.get("else", ()), *chooses(other)]]
            if again & {*waits, *chosen}:
                again.add(entry["name"])
    rows = world.flow()["status"]["jobStatusList"]
    kept = {row["name"] for row in rows if row.get("state") == COMPLETED and jobs.entry_of[row["name"]]["name"] not in again}
    outputs = {row["name"]: row.get("outputs") for row in rows if row["name"] in kept}
    before = len(world.created)
    plan.ends = {job: [COMPLETED] * 5 for job in plan.ends}
    foretell(plan)
    world.on_job = lambda _: None
    world.change(JOB_FLOWS, "f", {"metadata": {"annotations": {"flow.volcano.sh/resume": "again"}}})
    phases = []
    for kill in (True, True, False):
        async with world.controller():
            async with asyncio.timeout(3000):
                while not kill and (phases := [world.flow()["status"]["state"]["phase"]])[0] not in ("Succeed", "Failed"):
                    await asyncio.sleep(0.5)
            await asyncio.sleep(rng.random() * 3)
    made = Counter(world.created[before:])
    assert phases == ["Succeed" if not plan.valueless else phases[0]]
    assert not made.keys() & kept
    assert all(count <= 1 + jobs.deleted[name] for name, count in made.items()), made
    assert {row["name"]: row.get("outputs") for row in world.flow()["status"]["jobStatusList"] if row["name"] in kept} == outputs


def check(world: World, plan: Plan, jobs: JobController) -> None:
    status = world.flow()["status"]
    assert not jobs.too_early
    made = Counter(world.created)
    for job, count in made.items():
        assert count <= plan.tries.get(job, 0) + jobs.deleted[job], f"{job} was made {count} times"
    assert status["state"]["phase"] == ("Failed" if plan.fatal else "Succeed"), status
    if plan.fatal:
        states = [body.get("status", {}).get("state", {}) for (kind, _), body in world.objects.items() if kind is JOBS]
        assert plan.policy == "Continue" or {state.get("phase") for state in states} <= {COMPLETED, FAILED, TERMINATED}
        return
    for entry in plan.entries:
        name, want = entry["name"], plan.expected[entry["name"]]
        told = status["conditions"][f"f-{name}"]["phase"]
        assert told == want, f"{name}: {told}, not {want}"
        for job in jobs_of(entry) if want == COMPLETED else ():
            assert made[job] == plan.tries[job] + jobs.deleted[job], f"{job} was made {made[job]} times"
    assert "nextJobs" not in status
    assert all(condition["phase"] != "Waiting" for condition in status["conditions"].values())


@pytest.mark.parametrize("seed", range(examples(60, one_in=8)))
def test_a_random_jobflow_ends_as_expected_despite_faults_and_controller_restarts(seed: int) -> None:
    loop = virtual.new_event_loop(start=0)
    try:
        loop.run_until_complete(live_through(seed))
    finally:
        loop.close()
