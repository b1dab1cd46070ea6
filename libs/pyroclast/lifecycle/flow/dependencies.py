"""Whether the targets of an entry are satisfied: each target has completed, or passes all probes for its Job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pyroclast.api.enums import JobPhase, TargetStrategy
from pyroclast.api.records import Job, ProbeSet, TaskStatusProbe
from pyroclast.lifecycle.flow.facts import FlowFacts, Node, ProbedJob, ProbeRequest
from pyroclast.lifecycle.flow.units import EntryState, Stage, States
from pyroclast.lifecycle.gang import arrays

_NOT_YET_RUNNING = (JobPhase.NEW, JobPhase.PENDING)


class Met(Enum):
    """State of a dependency."""

    YES = "yes"
    OPEN = "open"
    NEVER = "never"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """All dependencies of an entry together.

    `message` names the open or failed dependencies. `probes` are the probes to run while the dependencies are open. `unrecorded`:
    whether outputs are read that the status of the flow does not have yet.
    """

    met: Met
    message: str = ""
    probes: tuple[ProbeRequest, ...] = ()
    unrecorded: bool = False


def judge_dependencies(facts: FlowFacts, node: Node, states: States) -> Dependencies:
    """Judge the targets of `node`, and the entries whose outcome its `if` or `switch` reads.

    If all entries that `node` depends on are skipped, `node` is skipped too. Otherwise a skipped target counts as satisfied.
    """
    if not node.waits:
        return Dependencies(Met.YES)
    waits = [states.get(name) for name in node.waits]
    if all(state is not None and state.stage is Stage.SKIPPED for state in waits):
        return Dependencies(Met.SKIPPED, f"all it depends on was skipped: {', '.join(node.waits)}")
    probes: list[ProbeRequest] = []
    judged = [(name, *_target(facts, node, name, states, probes)) for name in node.targets]
    # `condition_holds` judges the target of an `if`
    by_condition = node.entry.condition.target if node.entry.condition is not None else ""
    by_switch = node.entry.switch.on if node.entry.switch is not None else ""
    awaited = [name for name in node.waits if name == by_switch or (name in node.asked and name != by_condition)]
    asked = [(name, *_outcome(name, states.get(name))) for name in awaited]
    strategy = node.entry.depends_on.strategy if node.entry.depends_on is not None else TargetStrategy.ALL
    met, message = (_any if strategy is TargetStrategy.ANY else _all)(judged)
    needed = [(name, *_need(node, name, states.get(name))) for name in node.needs]
    if (lost := _all(needed))[0] is Met.NEVER and met is not Met.NEVER:
        met, message = lost
    if met is Met.YES:
        met, message = _all([*asked, *needed])
    if met is Met.YES and node.uses.reads_outputs:
        late = [name for name in node.waits if any(unit.is_over and not unit.is_recorded for unit in states[name].units)]
        if late:  # what is made from outputs must be the same after a restart
            return Dependencies(Met.OPEN, f"waits for the outputs of {', '.join(late)} to be recorded", unrecorded=True)
    return Dependencies(met, message, tuple(probes) if met is Met.OPEN else ())


def _all(judged: list[tuple[str, Met, str]]) -> tuple[Met, str]:
    never = [message for _, met, message in judged if met is Met.NEVER]
    if never:
        return Met.NEVER, "; ".join(never)
    waiting = [message for _, met, message in judged if met is Met.OPEN]
    return (Met.OPEN, _waits_for(waiting)) if waiting else (Met.YES, "")


def _any(judged: list[tuple[str, Met, str]]) -> tuple[Met, str]:
    if not judged or any(met is Met.YES for _, met, _ in judged):
        return Met.YES, ""
    waiting = [message for _, met, message in judged if met is Met.OPEN]
    if waiting:
        return Met.OPEN, _waits_for(waiting, " or ")
    never = [message for _, met, message in judged if met is Met.NEVER]
    return (Met.NEVER, "; ".join(never)) if never else (Met.YES, "")


_MOST_NAMED = 5


def _waits_for(messages: list[str], glue: str = ", ") -> str:
    more = f" and {len(messages) - _MOST_NAMED} more" if len(messages) > _MOST_NAMED else ""
    return f"waits for {glue.join(messages[:_MOST_NAMED])}{more}"


def _outcome(name: str, state: EntryState | None) -> tuple[Met, str]:
    """Judge an entry whose outcome another entry reads: any outcome satisfies the dependency."""
    if state is not None and state.is_decided:
        return Met.YES, ""
    return Met.OPEN, f"{name} to end"


def _need(node: Node, name: str, state: EntryState | None) -> tuple[Met, str]:
    """Judge an entry from whose outputs the Jobs of `node` are made. A skipped entry has none, which an expression may handle."""
    if state is not None and state.has_failed and name not in node.asked:
        return Met.NEVER, f"{name} is {state.phase}"
    return _outcome(name, state)


def _target(facts: FlowFacts, node: Node, name: str, states: States, probes: list[ProbeRequest]) -> tuple[Met, str]:
    state = states.get(name)
    if state is None:
        return Met.OPEN, f"{name}, which no entry is called" if name not in facts.graph.nodes else f"{name} to complete"
    if state.stage is Stage.SKIPPED:
        return Met.SKIPPED, ""
    if state.has_completed or (state.stage is Stage.DONE and name in node.asked):
        return Met.YES, ""
    if state.stage is Stage.DONE:
        return Met.NEVER, f"{name} is {state.phase}"
    probe = node.entry.depends_on.probe if node.entry.depends_on is not None else None
    jobs = [unit.job for unit in state.units if unit.job is not None and not unit.is_over]
    relevant = [(job, part) for job in jobs if (part := _about(probe, job)) is not None] if probe is not None else []
    if not relevant:
        return Met.OPEN, f"{name} to {'end' if name in node.asked else 'complete'}"
    return _probed(facts, node.name, name, relevant, probes)


def _probed(
    facts: FlowFacts, entry: str, target: str, relevant: list[tuple[Job, ProbeSet]], probes: list[ProbeRequest]
) -> tuple[Met, str]:
    """Whether a target that has not ended passes the probes for its Jobs."""
    if any(job.status.state.phase in _NOT_YET_RUNNING for job, _ in relevant):
        return Met.OPEN, f"{target} to run, to be probed then"
    missing = [text for job, part in relevant for text in _task_states(job, part.task_status_list)]
    if missing:
        return Met.OPEN, f"{target} ({', '.join(missing)})"
    http = tuple(dict.fromkeys(probe for _, part in relevant for probe in part.http_get_list))
    tcp = tuple(dict.fromkeys(probe for _, part in relevant for probe in part.tcp_socket_list))
    if not http and not tcp:
        return Met.YES, ""
    jobs = tuple(ProbedJob(job.metadata.name, job.metadata.uid, job.status.version) for job, _ in relevant)
    request = ProbeRequest(entry, target, jobs, http, tcp)
    answer = facts.answers.get(request)
    if answer is not None and answer.passed:
        return Met.YES, ""
    probes.append(request)
    return Met.OPEN, f"{target} ({answer.message})" if answer is not None and answer.message else f"the probes of {target}"


def _about(probe: ProbeSet | None, job: Job) -> ProbeSet | None:
    """Return the probes for tasks of `job`; None when there are none. A probe without a task name applies to every task."""
    if probe is None:
        return None
    tasks = {task.name for task in job.spec.tasks} | {""}
    lists = {name: getattr(probe, name) for name in ProbeSet.__struct_fields__}
    part = ProbeSet(**{name: tuple(each for each in probes if each.task_name in tasks) for name, probes in lists.items()})
    return part if part != ProbeSet() else None


def _task_states(job: Job, probes: Iterable[TaskStatusProbe]) -> list[str]:
    """Describe the tasks that have too few pods in the probed phase."""
    missing = []
    for probe in probes:
        phase = probe.phase or JobPhase.RUNNING.value
        for task in map(arrays.sized, job.spec.tasks):
            if probe.task_name not in ("", task.name) or task.replicas == 0:
                continue
            needed = max(1, task.replicas if task.min_available is None else task.min_available)
            state = job.status.task_status_count.get(task.name)
            count = sum(n for each, n in state.phase.items() if each.lower() == phase.lower()) if state is not None else 0
            if count < needed:
                missing.append(f"{count} of {needed} pods of task {task.name} are {phase}")
    return missing
