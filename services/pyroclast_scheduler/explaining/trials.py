"""Trials: the decisions of the next session about a gang, on a copy of the cluster, with the active actions and plugins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.causes import WaitingRecord
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.resource_sums import Contribution, QueueSums
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Action, PluginFactory


@dataclass(frozen=True, slots=True)
class Engine:
    """The decision code of the scheduler's loop. `features`: kept from trial to trial, and not shared with sessions."""

    configuration: Configuration
    actions: Mapping[str, Action]
    plugins: Mapping[str, PluginFactory]
    ports: Ports
    features: NodeFeatures = field(default_factory=NodeFeatures)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a trial.

    Attributes:
        starts: whether the minimum of the gang is placed at once.
        evictions: the number of pods that are evicted for this.
        record: the cause if the gang does not start; None if it starts or the cause is unknown.
    """

    starts: bool
    evictions: int = 0
    record: WaitingRecord | None = None


def tried(snapshot: Snapshot, gang: JobFacts, engine: Engine, *, instead: str = "") -> Verdict:
    """Return the decision of the next session about `gang`. `instead`: the key of the job that `gang` replaces.

    Unschedulable jobs are not examined, since nothing changes for them. No decision is committed, and `snapshot` does not change.
    """
    commits: list[Commit] = []
    outcome = run_cycle(
        _with(snapshot, gang, engine.features, instead),
        engine.configuration,
        actions=engine.actions,
        plugins=engine.plugins,
        ports=replace(engine.ports.rehearsing(), commit=commits.append),
        uid="trial",
    )
    bound = sum(len(binds.placed) for commit in commits for binds in commit.binds if binds.job == gang.key)
    evicted = sum(len(commit.evictions) for commit in commits)
    own = {task.uid for task in gang.tasks}
    promised = sum(uid in own for uid in outcome.promised)
    starts = bound + promised >= max(1, gang.min_available) if gang.tasks else False
    return Verdict(starts, evicted, None if starts else outcome.records.get(gang.key))


def _with(snapshot: Snapshot, gang: JobFacts, features: NodeFeatures, instead: str) -> Snapshot:
    """Return a copy of the cluster in which the session examines only `gang`."""
    known = snapshot.all_jobs.get(instead)
    jobs = {key: facts for key, facts in snapshot.all_jobs.items() if key != instead}
    sums = dict(snapshot.queue_sums)
    dimensions = snapshot.dimensions
    if known is not None:
        _count(sums, known.contribution, dimensions, -1)
    _count(sums, gang.contribution, dimensions, 1)
    return replace(
        snapshot,
        columns=snapshot.columns.copy(),
        ports={row: Counter(ports) for row, ports in snapshot.ports.items()},
        jobs=[gang],
        lines=(),
        all_jobs={**jobs, gang.key: gang},
        queue_sums=sums,
        is_coupled=snapshot.is_coupled or any(task.shape.is_coupled for task in gang.tasks),
        features=features,
        touched=None,
    )


def _count(sums: dict[str, QueueSums], contribution: Contribution, dimensions: Dimensions, sign: int) -> None:
    nothing = dimensions.sums({})
    before = sums.pop(contribution.queue, QueueSums(nothing, nothing, nothing, nothing, nothing))
    jobs = before.jobs + sign
    if not jobs:
        return
    allocated, pending, elastic, inqueue, whole = (dimensions.sums(part) * sign for part in contribution.parts)
    sums[contribution.queue] = QueueSums(
        before.allocated + allocated,
        before.pending + pending,
        before.elastic + elastic,
        before.inqueue + inqueue,
        before.inqueue_whole + whole,
        jobs,
    )
