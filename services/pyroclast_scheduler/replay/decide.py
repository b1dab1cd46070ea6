"""Restores a captured state of the scheduler, and runs a session over this state.

`python -m pyroclast_scheduler replay snapshot.json` prints the decisions over a `/debug/snapshot` as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from pyroclast.api import records
from pyroclast.api.records import reading
from pyroclast.api.types import Key
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.assumptions import AssumptionKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.job_entries import Stranger
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.replay.state import Circumstances, NotReplayable, State, read
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import NodeUsage, Ports, Shard

_BEYOND: Final = {"extender": "asks services of others, whose answers are not in a snapshot"}


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """The decisions of a session. Pods and PodGroups are named namespace/name.

    Attributes:
        binds: the node of each bound pod.
        evictions: the action that evicts each victim.
        pipelined: the node of each pipelined pod.
        waiting: the reason of each pending pod.
        phases: the phase of each PodGroup that the session examined.
        reasons: the conditions of each PodGroup that the session examined.
    """

    binds: dict[str, str] = field(default_factory=dict)
    evictions: dict[str, str] = field(default_factory=dict)
    pipelined: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, outcome: Outcome, commits: list[Commit], cache: Cache) -> ReplayedDecision:
        """Return the decisions of a session over `cache`."""
        name = {uid: task.key for uid, task in cache.tasks.items()}
        placed = sorted((name[uid], node) for commit in commits for binds in commit.binds for uid, node in binds.placed)
        groups = {key: group for key in sorted(outcome.seen) if (group := cache.groups.current(key)) is not None}
        statuses = [(key, outcome.statuses.get(key, group.status)) for key, group in groups.items()]
        return cls(
            dict(placed),
            dict(sorted((each.task.key, each.reason) for commit in commits for each in commit.evictions)),
            dict(sorted((name[uid], node) for uid, node in outcome.promised.items())),
            dict(sorted((each.task.key, f"{each.reason}: {each.message}") for each in outcome.waiting)),
            {key: str(status.phase) for key, status in statuses},
            {
                key: [f"{each.type} {each.reason}: {each.message}" for each in status.conditions if each.status == "True"]
                for key, status in statuses
            },
        )


class _Usage:
    def __init__(self, usage: Mapping[str, NodeUsage]) -> None:
        self._usage = usage

    def usage(self) -> Mapping[str, NodeUsage]:
        return self._usage


def decided(state: State) -> ReplayedDecision:
    """Return the decisions of the next session.

    Raises:
        NotReplayable: the decisions depend on data that the state or this installation lacks.
    """
    actions, plugins = registry.actions(), registry.plugins()
    settings = state.configuration
    if unknown := [name for name in settings.actions if name not in actions]:
        raise NotReplayable(f"action {unknown[0]} is not installed here")
    for name in (entry.name for tier in settings.tiers for entry in tier):
        if name in _BEYOND:
            raise NotReplayable(f"plugin {name} {_BEYOND[name]}")
        if name not in plugins and f"plugin {name}" in "\n".join(settings.warnings):
            continue  # it did not exist when the snapshot was taken either
        if name not in plugins:
            raise NotReplayable(f"plugin {name} is not installed here")
    if state.circumstances.unwritten:
        raise NotReplayable(f"what plugins remember as {', '.join(state.circumstances.unwritten)} is not in a snapshot")
    cache = restored(state)
    commits: list[Commit] = []
    outcome = run_cycle(
        cache.snapshot(),
        settings,
        actions=actions,
        plugins=plugins,
        ports=_ports(state.circumstances, commits),
        uid="replay",
    )
    return ReplayedDecision.of(outcome, commits, cache)


def restored(state: State) -> Cache:
    """Return the captured cache, with all jobs to be examined.

    Raises:
        NotReplayable: objects are of an unknown kind, or invalid.
    """
    now = state.circumstances.now
    cache = Cache(state.scheduler_names, default_queue=state.default_queue, is_shared=state.is_shared, now=lambda: now)
    cache.dimensions.add(state.dimensions)
    _take_nodes(cache, state)
    cache.undecodable_nodes = {Key("", name): why for name, why in state.undecodable_nodes.items()}
    for queue in state.queues:
        cache.queue_changed(None, queue)
    for each in state.priorities:
        cache.priority_changed(None, each)
    _take_objects(cache, state)
    for group in state.groups:
        cache.group_changed(None, group)
    cache.natives.queues.by_job.update(state.queues_of_jobs)
    cache.natives.queues.by_namespace.update(state.queues_of_namespaces)
    for native in state.native_groups:
        cache.natives.group_changed(None, native)
    for composite in state.composite_groups:
        cache.natives.composite_changed(None, composite)
    for uid, (kind, node) in state.assumed.items():
        cache.assumptions.add(uid, AssumptionKind(kind), node, now)
    for pod in state.pods:
        cache.pod_changed(None, pod)
    cache.holds.held.update(state.held)
    cache.holds.refused.update(state.refused)
    for key, strangers in state.strangers.items():
        entry = cache.jobs.entry(cache.natives.belongs_to(key))
        entry.strangers |= {uid: Stranger(scheduler, key) for uid, scheduler in strangers.items()}
    for key, status in state.statuses.items():
        cache.groups.believe(key, status)
    cache.placed()  # calculates the problems of jobs
    if news := cache.problems.keys() - state.problems.keys():
        what = min(news)
        raise NotReplayable(f"{what} was taken when the snapshot was, and is not now: {cache.problems[what]}")
    return cache


def _take_nodes(cache: Cache, state: State) -> None:
    known = {node.metadata.name: node for node in state.nodes}
    for name in state.rows:  # the order of the rows decides among equal scores
        if name in known:
            cache.node_changed(None, known[name])
        else:
            cache.nodes.expect(name)


def _take_objects(cache: Cache, state: State) -> None:
    for kind, bodies in state.objects.items():
        record: Any = getattr(records, kind, None)
        if record is None:
            raise NotReplayable(f"objects of kind {kind} are not known here")
        for body in bodies:
            try:
                cache.object_changed(None, reading.convert(body, record, strict=False))
            except msgspec.ValidationError as error:
                raise NotReplayable(f"{kind}: {error}") from error


def _ports(given: Circumstances, commits: list[Commit]) -> Ports:
    return Ports(
        given.now,
        commits.append,
        shard=None if given.shard is None else Shard(frozenset(given.shard), given.is_hard),
        period=given.period,
        usage=_Usage(given.usage),
        memory=dict(given.memory),
        scheduler=given.scheduler,
        reservations=given.reservations,
        elsewhere=given.elsewhere,
    )


_USAGE: Final = "usage: python -m pyroclast_scheduler replay FILE (what /debug/snapshot answered; - reads standard input)\n"


def replay(arguments: Sequence[str]) -> int:
    """Print the decisions. Return the exit status: 0, or 2 with one line on standard error if they cannot be repeated."""
    is_asked_for_help = arguments[:1] in (["-h"], ["--help"])
    if is_asked_for_help or len(arguments) != 1:
        (sys.stdout if is_asked_for_help else sys.stderr).write(_USAGE)
        return 0 if is_asked_for_help else 2
    try:
        body = sys.stdin.buffer.read() if arguments[0] == "-" else Path(arguments[0]).read_bytes()
        decision = decided(read(body))
    except (OSError, NotReplayable) as error:
        sys.stderr.write(f"{arguments[0]} cannot be replayed: {error}\n")
        return 2
    sys.stdout.buffer.write(orjson.dumps(asdict(decision), option=orjson.OPT_INDENT_2) + b"\n")
    return 0
