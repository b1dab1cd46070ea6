"""Describes the progress of submitted objects: why they wait, what runs, and how they ended; and shows it in a terminal.

A flow is shown as a tree: each entry below the last entry that it waits for, with its Jobs.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from pyroclast.api import keys
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import EntryPhase, FlowPhase, JobPhase, JobReason, PodGroupPhase, PodPhase
from pyroclast.api.records import FlowJobCondition, HyperJob, Job, JobFlow, JobState, Pod, PodGroup
from pyroclast.lifecycle.flow import facts
from pyroclast.lifecycle.flow.jobs import job_name

SUCCEEDED: Final[frozenset[str]] = frozenset({JobPhase.COMPLETED, FlowPhase.SUCCEED, PodPhase.SUCCEEDED})
FAILED: Final[frozenset[str]] = frozenset({JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED})
_WAITS: Final = frozenset({JobReason.NOT_ENOUGH_PODS, JobReason.VOLUME_CLAIM_NOT_FOUND})
FINISHED: Final = SUCCEEDED | FAILED  # no two of these kinds use one word for different phases


@dataclass(frozen=True, slots=True)
class Progress:
    """A line about an object, and a Progress for each of its `branches` by name. Equal values need not be shown twice."""

    phase: str
    detail: str
    branches: tuple[tuple[str, Progress], ...] = ()

    @property
    def is_finished(self) -> bool:
        """Whether the object has ended, successfully or not."""
        return self.phase in FINISHED

    @property
    def is_successful(self) -> bool:
        """Whether the object has ended successfully."""
        return self.phase in SUCCEEDED

    def __str__(self) -> str:
        return f"{self.phase:<11} {self.detail}".rstrip()


def progress(job: Job, group: PodGroup | None, pods: Sequence[Pod]) -> Progress:
    """Return the progress of `job` from its PodGroup (None before it exists) and its existing pods."""
    phase = job.status.state.phase or JobPhase.PENDING
    if phase in FINISHED:
        return Progress(phase, _outcome(job, pods))
    if phase == JobPhase.PENDING:
        return Progress(phase, _what_it_waits_for(job, group, pods))
    return Progress(phase, _tasks(pods))


def pod_progress(pod: Pod) -> Progress:
    """Return the progress of a pod without a Job."""
    phase = pod.status.phase or PodPhase.PENDING
    told = [pod.status.message or pod.status.reason]
    if phase == PodPhase.PENDING:
        told += [condition.message for condition in pod.status.conditions if condition.status == "False"]
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if container.state.waiting is not None:
            told.append(container.state.waiting.message or container.state.waiting.reason)
        elif container.state.terminated is not None and container.state.terminated.exit_code:
            told.append(f"container {container.name} ended with exit code {container.state.terminated.exit_code}")
    return Progress(phase, next(filter(None, told), ""))


def hyper_job_progress(hyper_job: HyperJob) -> Progress:
    """Return the progress of a HyperJob, with a branch for each of its Jobs.

    The HyperJob has ended when its conditions say so, or when all its Jobs have ended and no further change is possible.
    """
    conditions = {condition.type: condition for condition in hyper_job.status.conditions}
    rows = hyper_job.status.replicated_jobs_status
    states = {name: state for row in rows for name, state in row.job_states.items()}
    branches = tuple((name, _of_state(state)) for name, state in sorted(states.items()))
    for name, phase in (("Completed", JobPhase.COMPLETED), ("Failed", JobPhase.FAILED)):
        if name in conditions and conditions[name].status == "True":
            return Progress(phase, conditions[name].message, branches)
    wanted = sum(entry.replicas for entry in hyper_job.spec.replicated_jobs)
    placed, available = conditions.get("Placed"), conditions.get("Available")
    is_available = available is not None and available.status == "True"
    if len(branches) == wanted and all(branch.is_finished for _, branch in branches):
        return Progress(JobPhase.COMPLETED if is_available else JobPhase.FAILED, available.message if available else "", branches)
    if placed is not None and placed.status == "False":
        return Progress(JobPhase.PENDING, placed.message, branches)
    return Progress(JobPhase.RUNNING if is_available else JobPhase.PENDING, available.message if available else "", branches)


def _of_state(state: JobState) -> Progress:
    return Progress(state.phase or JobPhase.PENDING, state.message or state.reason)


def _outcome(job: Job, pods: Sequence[Pod]) -> str:
    reason = job.status.state.message or job.status.state.reason
    return " · ".join(part for part in (reason, _tasks(pods)) if part)


def _what_it_waits_for(job: Job, group: PodGroup | None, pods: Sequence[Pod]) -> str:
    cause = _cause(job, group)
    reason = f": {cause}" if cause else ""
    if group is None:
        return f"waits for its PodGroup{reason}"
    if group.status.phase in ("", PodGroupPhase.PENDING):
        return f"waits for queue {job.spec.queue or 'default'} to take it in{reason}"
    if not pods:
        return f"its pods are being created{reason}"
    waiting = sum(not pod.spec.node_name for pod in pods)
    if waiting:
        return f"{waiting} of {len(pods)} pods wait for nodes{reason}"
    return f"pods are starting: {_tasks(pods)}"


def _cause(job: Job, group: PodGroup | None) -> str:
    """Return why the Job waits: its own message, or that of its PodGroup, which is written earlier."""
    own = job.status.state.message.removeprefix("waits: ") if job.status.state.reason in _WAITS else ""
    return own if group is None or (own and not pending.reason_of(own)) else _unschedulable(group)


def _unschedulable(group: PodGroup) -> str:
    for condition in reversed(group.status.conditions):
        if condition.type == "Unschedulable" and condition.status == "True":
            return pending.summary_of(condition.message)
    return ""


def _tasks(pods: Iterable[Pod]) -> str:
    """Return the pods of each task by phase: `launcher 1 Running, worker 2 Running 1 Pending`."""
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        task = pod.metadata.annotations.get(keys.TASK_SPEC, "pods")
        by_task.setdefault(task, Counter())[pod.status.phase or "Pending"] += 1
    return ", ".join(
        f"{task} " + " ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        for task, phases in sorted(by_task.items())
    )


MOST_LEVELS: Final = 40
"""Most levels of a tree. A flow may be a chain of hundreds of entries, whose indentation would be unreadable."""

_OWN_WORDS = frozenset(EntryPhase)


@dataclass(frozen=True, slots=True)
class _Tree:
    flow: JobFlow
    nodes: Mapping[str, facts.Node]
    jobs: Mapping[str, Progress]
    children: Mapping[str, Sequence[str]]


def flow_progress(flow: JobFlow, jobs: Mapping[str, Progress]) -> Progress:
    """Return the progress of `flow`. `jobs` are its existing Jobs by name."""
    built = facts.build(flow.spec)
    children: dict[str, list[str]] = {}
    for name, parent in _parents(built).items():
        children.setdefault(parent, []).append(name)
    tree = _Tree(flow, built.nodes, jobs, children)
    phases = Counter(_condition(tree, name).phase for name in built.nodes)
    skipped = f", {phases[EntryPhase.SKIPPED]} skipped" if phases[EntryPhase.SKIPPED] else ""
    detail = f"{phases[JobPhase.COMPLETED]} of {len(built.nodes)} entries completed{skipped}"
    branches = tuple((name, _entry(tree, name)) for name in children.get("", ()))
    return Progress(flow.status.state.phase or FlowPhase.PENDING, detail, branches)


def _parents(built: facts.Graph) -> dict[str, str]:
    """Return the parent of each entry in the tree, empty for none: of the needed entries, the first with the longest path.

    From `MOST_LEVELS` on, an entry is a sibling of its parent.
    """
    depths: dict[str, int] = {}
    parents: dict[str, str] = {}
    for name in built.order:
        node = built.nodes[name]
        needed = [other for other in (*node.waits, *node.choosers) if other in depths]
        depths[name] = 1 + max((depths[other] for other in needed), default=0)
        nearest = max(needed, key=depths.__getitem__, default="")
        parents[name] = nearest if depths[name] <= MOST_LEVELS else parents[nearest]
    parents.update({name: "" for name in built.nodes if name in built.cyclic})
    return parents


def _entry(tree: _Tree, name: str) -> Progress:
    job = job_name(tree.flow.metadata.name, name)
    condition = _condition(tree, name)
    is_loop = tree.nodes[name].entry.loop is not None
    rounds = sorted((index, key) for key in tree.jobs if is_loop and (index := _round(key, job)) is not None)
    branches = (
        *((f"round {index}", tree.jobs[key]) for index, key in rounds),
        *((child, _entry(tree, child)) for child in tree.children.get(name, ())),
    )
    if job in tree.jobs and condition.phase not in _OWN_WORDS:
        return Progress(tree.jobs[job].phase, tree.jobs[job].detail, branches)
    return Progress(condition.phase or EntryPhase.WAITING, condition.message, branches)


def _round(name: str, job: str) -> int | None:
    """Return the loop round of the Job `name`, if its name is `job` and a number. Otherwise None."""
    index = name.removeprefix(f"{job}-")
    return int(index) if index != name and index.isdecimal() else None


def _condition(tree: _Tree, name: str) -> FlowJobCondition:
    """Return the condition of an entry in the status. A large flow may only have a row for its Job."""
    status, job = tree.flow.status, job_name(tree.flow.metadata.name, name)
    if (said := status.conditions.get(job)) is not None:
        return said
    return next((FlowJobCondition(phase=row.state) for row in status.job_status_list if row.name == job), FlowJobCondition())


QUIET_SECONDS = 1.0
INDENT = " " * 10  # below the name, which follows the time


class Display:
    """Prints progress lines with the time since the start.

    On a terminal each change is shown, and the lines of an object are overwritten while its phase stays. Elsewhere, lines are
    printed for each change of a phase, and for other changes at most once in `QUIET_SECONDS`. Of a tree, the changed branches are
    printed, and all branches at its end.
    """

    def __init__(self, out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._is_terminal = out.isatty()
        self._start = clock()
        self._open: tuple[str, int] | None = None  # name and number of the lines that may be overwritten
        self._shown: dict[str, tuple[float, Progress]] = {}

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._close()
        print(text, file=self._out, flush=True)

    def show(self, name: str, now: Progress) -> bool:
        """Show the progress of an object if it has changed. Return False when the output is delayed."""
        at, before = self._shown.get(name, (-QUIET_SECONDS, None))
        elapsed = self._clock() - self._start
        if now == before:
            return True
        same_phases = before is not None and _phases(before) == _phases(now)
        if same_phases and not self._is_terminal and elapsed - at < QUIET_SECONDS:
            return False
        self._shown[name] = (elapsed, now)
        first = f"{elapsed:6.1f} s  {name}  {now}"
        if self._is_terminal:
            self._rewrite(name, [first, *tree_lines(now)], is_same_phase=before is not None and before.phase == now.phase)
            return True
        known = set(tree_lines(before)) if before is not None and not now.is_finished else set()
        print("\n".join([first, *(line for line in tree_lines(now) if line not in known)]), file=self._out, flush=True)
        return True

    def _rewrite(self, name: str, lines: list[str], *, is_same_phase: bool) -> None:
        columns, height = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in lines]  # a wrapped line could not be overwritten
        if self._open is not None and self._open[0] == name and is_same_phase and self._open[1] < height:
            up = self._open[1] - 1
            print("\r" + (f"\033[{up}A" if up else "") + "\033[J", end="", file=self._out)
        else:
            self._close()
        print("\n".join(lines), end="", file=self._out, flush=True)
        self._open = (name, len(lines))

    def _close(self) -> None:
        if self._open is not None:
            print(file=self._out, flush=True)
            self._open = None


def tree_lines(progress: Progress) -> list[str]:
    """Return an indented line for each branch and its branches, with aligned phases."""
    rows = list(_rows(progress, ""))
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{INDENT}{label:<{width}}  {branch}" for label, branch in rows]


def _rows(progress: Progress, margin: str) -> Iterator[tuple[str, Progress]]:
    for position, (name, branch) in enumerate(progress.branches, 1):
        is_last = position == len(progress.branches)
        yield f"{margin}{'└─' if is_last else '├─'} {name}", branch
        yield from _rows(branch, margin + ("   " if is_last else "│  "))


def _phases(progress: Progress) -> tuple[object, ...]:
    return (progress.phase, *((name, _phases(branch)) for name, branch in progress.branches))
