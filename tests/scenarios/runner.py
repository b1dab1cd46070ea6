"""Running one case: a cache from its tables, its cycles through the real decision code, and what differs from what it expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyroclast_scheduler import registry
from pyroclast_scheduler.actions import backfill
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import NodeUsage, Ports, Shard
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.session_close import close
from tests.scenarios import claims, cpus, extenders, objects, storage
from tests.scenarios.taking import assume_all

from .profiles import configuration, profile_of
from .taking import take

UNDERSTOOD = {
    "L",
    "id",
    "hypernodes",
    "jobs",
    "tierNames",
    "victimFn",
    "prio",
    "title",
    "src",
    "profile",
    "use",
    "nodes",
    "queues",
    "podgroups",
    "pods",
    "base",
    "variants",
    "cycles",
    "expect",
    "note",
    "why",
    "also",
    "shard",
    "weights",
    "tiers",
    "actions",
    "actionArgs",
    "subScores",
    "volumes",
    "claims",
    "storageClasses",
    "csiNodes",
    "namespaces",
    "devices",
    "deviceClasses",
    "deviceClaims",
    "classSelector",
    "services",
    "budgets",
    "quotas",
    "usage",
    "arguments",
    "numa",
    "extender",
    "since",
    "deviceConfig",
}


@dataclass
class Result:
    """What became of a case. `missing`: actions and plugins it needs that are not there; then nothing was run."""

    name: str
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """What came out of the cycles of a case."""

    binds: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    pipelined: dict[str, list[str]] = field(default_factory=dict)
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    writes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)


def cases_of(case: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each variant of a case as a case of its own."""
    variants = case.get("variants")
    if not variants:
        yield case["id"], dict(case)
        return
    for number, variant in enumerate(variants, 1):
        merged = {key: value for key, value in case.items() if key != "variants"} | variant
        yield f"{case['id']}.{number}", merged


def run(name: str, case: Mapping[str, Any]) -> Result:
    """Run a case that is a cluster and cycles over it."""
    result = Result(name)
    profile = profile_of(case)
    settings = configuration(profile, case)
    result.missing = missing(settings, case)
    if result.missing:
        return result
    cache = Cache()
    if "queues" not in {*case, *(case.get("base") or {})}:
        feed(cache, {"queues": [[name, {}] for name in sorted({row[1] for row in case.get("podgroups") or []})]})
    feed(cache, case.get("base") or {})
    feed(cache, case)
    if "backfillOrder" in (case.get("expect") or {}):
        result.differences = backfill_order(cache, settings, case)
        return result
    seen = Seen()
    for step in case.get("cycles") or [case]:
        if step is not case:
            feed(cache, step)
            settings = configuration({**profile, "actions": step.get("actions", profile["actions"])}, case)
        seen.binds, seen.evicted = {}, []
        cycle(cache, settings, seen, **outside(case))
        result.differences += judge(step.get("expect") or {}, seen, case)
    return result


def missing(settings: Configuration, case: Mapping[str, Any]) -> list[str]:
    """Actions, plugins and features that this case needs and that are not there."""
    actions, plugins = registry.actions(), registry.plugins()
    names = [f"action {name}" for name in settings.actions if name not in actions]
    names += [f"plugin {entry.name}" for tier in settings.tiers for entry in tier if entry.name not in {*plugins, "fake"}]
    names += [f"table of {key}" for key in case if key not in UNDERSTOOD]
    return sorted(set(names))


def feed(cache: Cache, tables: Mapping[str, Any]) -> None:
    """Put the objects of the tables into the cache."""
    for row in tables.get("nodes") or []:
        cache.node_changed(None, objects.node(row))
    for name, (tier, members) in (tables.get("hypernodes") or {}).items():
        tier_name = (tables.get("tierNames") or {}).get(tier, "")
        cache.object_changed(None, objects.hyper_node(name, tier, members, tables["hypernodes"], tier_name))
    for record in (*storage.of(tables), *claims.of(tables), *cpus.of(tables), *objects.device_config(tables)):
        cache.object_changed(None, record)
    for row in tables.get("queues") or []:
        cache.queue_changed(None, objects.queue(row))
    for row in tables.get("podgroups") or []:
        options = row[3] if len(row) > 3 else {}
        if options.get("class") is not None:
            cache.priority_changed(None, objects.priority_class(options["class"]))
        cache.group_changed(None, objects.pod_group(row))
    for row in tables.get("pods") or []:
        cache.pod_changed(None, objects.pod(row))
    for name, job in (tables.get("jobs") or {}).items():
        feed(cache, {"podgroups": [[name, job["queue"], 1]]})
        feed(cache, {"pods": [[f"{name}-{number}", name, "-", *job["each"]] for number in range(job["pods"])]})


def outside(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the case says of a scheduler's surroundings, as the ports of a session: its shard, and measurements of nodes.

    usage: {node: [cpu and memory in percent, age in seconds]}; since: {what plugins remember: seconds ago}
    """
    found: dict[str, Any] = {}
    if "shard" in case:
        found["shard"] = Shard(frozenset(case["shard"]["nodes"]), case["shard"]["mode"] == "hard")
    if "usage" in case:
        found["usage"] = Measured(case["usage"])
    if "since" in case:
        found["memory"] = {key: objects.NOW - seconds for key, seconds in case["since"].items()}
    if "extender" in case:
        found["extender"] = extenders.Told(case["extender"])
    return found


class Measured:
    """Measurements of nodes over the one window that there is."""

    def __init__(self, rows: Mapping[str, list[float]]) -> None:
        self.rows = {
            name: NodeUsage({"10m": cpu}, {"10m": memory}, objects.NOW - age) for name, (cpu, memory, age) in rows.items()
        }

    def usage(self) -> Mapping[str, NodeUsage]:
        return self.rows


def cycle(cache: Cache, settings: Configuration, seen: Seen, **surroundings: Any) -> None:
    """One cycle; its binds and evictions are taken up by the cache, as the service does it. `surroundings`: ports."""
    commits: list[Commit] = []
    ports = Ports(objects.NOW, commits.append, **surroundings)
    session = Session(cache.snapshot(), settings, {**registry.plugins(), "fake": LowPriority}, ports, uid="session")
    for name in settings.actions:
        registry.actions()[name](session, session.arguments_of(name))
    outcome: Outcome = close(session, timestamp=objects.timestamp(objects.NOW))
    for commit in commits:
        for eviction in commit.evictions:
            seen.evicted.append(eviction.task.name)
            cache.pods.releasing(eviction.task.uid)
        for binds in commit.binds:
            for uid, node in binds.placed:
                seen.binds[cache.tasks[uid].name] = node
            storage.promise(cache, binds)
            problem = assume_all(cache, binds.placed)
            assert problem is None, problem
    seen.reservations = {key.partition("/")[2]: state for key, state in (outcome.reservations or {}).items()}
    seen.writes |= storage.writes(commits)
    seen.reasons |= {waiting.task.name: waiting.message for waiting in outcome.waiting}
    take(cache, outcome)
    for job in session.jobs.values():
        name = job.facts.name
        pipelined = [task for task in job.tasks if task.status is TaskStatus.PIPELINED]
        seen.pipelined[name] = sorted(session.names[task.row] for task in pipelined)
        seen.statuses[name] = Counter(task.status.label for task in job.tasks)
        seen.conditions[name] = [each for condition in job.conditions.values() for each in (condition.type, condition.reason)]
        status = outcome.statuses.get(job.facts.key, job.facts.group.status)
        # a group without minimum that has nothing yet is written as Completed; cases speak of what the actions made of it
        has_nothing = not job.tally.scheduled and not job.facts.releasing_on_node
        seen.phases[name] = str(job.phase if has_nothing and not job.facts.min_available else status.phase)
    seen.notes = [note.message for note in outcome.notes]


class LowPriority:
    """A plugin that wants all pods of priority 10 to go."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Extensions:
        del session
        return Extensions(victim_tasks=lambda candidates: [each for each in candidates if each[1].facts.pod.spec.priority == 10])


def backfill_order(cache: Cache, settings: Configuration, case: Mapping[str, Any]) -> list[str]:
    """In which order backfill would take the tasks, those marked `pipelined` being promised a node before."""
    feed(cache, {"nodes": [["n", 1000, "1000Gi", {"pods": 1000}]]})
    session = Session(cache.snapshot(), settings, registry.plugins(), Ports(objects.NOW), uid="session")
    promised = {row[0] for row in case["pods"] if len(row) > 5 and row[5].get("pipelined")}
    for job in session.jobs.values():
        for task in job.tasks:
            if task.facts.name in promised:
                session.statement().pipeline(job, session.plan(task.facts.shape), [task], np.zeros(1, dtype=np.intp))
    got = [task.facts.name for _, task in backfill.candidates(session)]
    want = case["expect"]["backfillOrder"]
    return [] if got == want else [f"order: got {got}, want {want}"]


def compare_evictions(want: list[str] | str, seen: Seen, case: Mapping[str, Any], compare: Callable[..., None]) -> None:
    """Evicted pods by name, or `N pods of JOB` where it does not matter which."""
    if isinstance(want, str):
        number, _, _, job = want.split()
        owner = {row[0]: row[1] for row in case["pods"]}
        compare("evict", [owner[pod] for pod in seen.evicted], [job] * int(number))
    else:
        compare("evict", sorted(seen.evicted), sorted(want))


def judge(expect: Mapping[str, Any], seen: Seen, case: Mapping[str, Any]) -> list[str]:
    """What differs from what is expected."""
    found: list[str] = []
    labels = {row[0]: (row[3] if len(row) > 3 else {}).get("labels", {}) for row in case.get("nodes") or []}

    def compare(what: str, got: object, want: object) -> None:
        if got != want:
            found.append(f"{what}: got {got}, want {want}")

    if "bind" in expect or not {*expect} & {"binds", "bound", "perNode", "oneOf", "sameZone", "atLeastOneOn"}:
        compare("bind", seen.binds, expect.get("bind", {}))
    compare_evictions(expect.get("evict") or [], seen, case, compare)
    for key, want in expect.items():
        match key:
            case "bind" | "evict":
                pass
            case "perNode":
                roles = {row[0]: row[5]["role"] for row in case["pods"]}
                on: dict[str, list[str]] = {}
                for pod, node in seen.binds.items():
                    on.setdefault(node, []).append(roles[pod])
                wrong = {node: sorted(found) for node, found in on.items() if sorted(found) != sorted(want["roles"])}
                compare("roles on nodes", wrong, {})
            case "perRack":
                racks = {name: members for name, (tier, members) in case["hypernodes"].items() if tier == 1}
                counts = {name: sum(node in members for node in seen.binds.values()) for name, members in racks.items()}
                wanted = want if isinstance(want, dict) else dict.fromkeys(racks, want)
                compare("pods per rack", {name: counts.get(name) for name in wanted}, wanted)
            case "writes":
                compare("writes", seen.writes, want)
            case "says":
                wrong = {pod: seen.reasons.get(pod) for pod, text in want.items() if text not in seen.reasons.get(pod, "")}
                compare("what pods say", wrong, {})
            case "reserved":
                got = {job: sorted(state.nodes) for job, state in seen.reservations.items()}
                compare("nodes reserved", got, {job: sorted(nodes) for job, nodes in want.items()})
            case "promised":  # seconds from now
                got = {job: state.promise and state.promise - objects.NOW for job, state in seen.reservations.items()}
                compare("promises", got, want)
            case "noCrash":
                pass  # it has come this far
            case "bound":
                owner = {f"{job}-{number}": job for job, each in case["jobs"].items() for number in range(each["pods"])}
                compare("bound per job", Counter(owner[pod] for pod in seen.binds), want)
            case "binds":
                compare("number of binds", len(seen.binds), want)
            case "pipe":
                got = {job: seen.pipelined.get(job) for job in want}
                compare("pipelined", got, {job: sorted(nodes) for job, nodes in want.items()})
            case "phase":
                compare("phase", {job: seen.phases.get(job) for job in want or seen.phases}, want)
            case "condition":
                compare("condition", {job: seen.conditions.get(job) for job in want}, want)
            case "taskStatus":
                compare("task statuses", {job: dict(seen.statuses[job]) for job in want}, want)
            case "oneOf":
                wrong = {pod: seen.binds.get(pod) for pod, nodes in want.items() if seen.binds.get(pod) not in nodes}
                compare("not on the nodes allowed", wrong, {})
            case "sameZone":
                zones = {labels[seen.binds[pod]].get("zone") if pod in seen.binds else None for pod in want}
                compare("number of zones", len(zones), 1)
            case "atLeastOneOn":
                compare(f"something on {want}", want in seen.binds.values(), True)
            case _:
                found.append(f"expectation {key} is not understood")
    return found
