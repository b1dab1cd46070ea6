"""A cluster with one Job in it, in memory: it carries out effects, and strangers, nodes and a scheduler act on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import BusEvent, JobPhase, JobReason, PodGroupPhase, PodPhase
from pyroclast.api.records import AfterJob, Job, Pod, PodGroup
from pyroclast.lifecycle.effects import (
    CreateGroup,
    CreatePods,
    DeleteGroup,
    DeletePods,
    MarkPods,
    PatchGroup,
    PreparePlugins,
    RemovePlugins,
    WriteStatus,
)
from pyroclast.lifecycle.gang import members, pods
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.job import after, job_events, tracked_pods
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.facts import JobDecision, JobFacts, Remembered, RequestedAction
from pyroclast.lifecycle.job.phase_transitions import MOVES, PROGRESS, is_ending
from pyroclast.lifecycle.job.status import written
from pyroclast.lifecycle.times import format_time

from .builders import NOW, decode, queue

RUNNING = JobPhase.RUNNING
MARKS = {"plugin-svc": "svc"}


class Crash(Exception):
    """The controller was killed."""


@dataclass
class World:
    job: Job
    pods: dict[str, Pod] = field(default_factory=dict)
    group: PodGroup | None = None
    plugin_objects: bool = False
    memory: Remembered = field(default_factory=Remembered)
    orders: list[RequestedAction] = field(default_factory=list)
    now: float = NOW
    steps_until_crash: int | None = None
    lost: set[str] = field(default_factory=set)
    """Uids of pods on nodes of which nothing is heard any more: they do not go, and nobody tells how they end."""
    own: set[str] = field(default_factory=set)
    """Uids of pods that the controller deleted."""
    ended_by_controller: dict[str, bool] = field(default_factory=dict)
    """Of each pod that has gone and was not made again, whether it was the controller that deleted it."""
    started: set[str] = field(default_factory=set)
    """The pods that ran when the controller had looked last."""
    evicted: set[str] = field(default_factory=set)
    """Those of them that somebody else has deleted since."""
    successes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The pods that were deleted after their success, with the version and the number of restarts of the Job at that time."""
    made: int = 0
    created: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """How often a pod was made for a name at a version and a number of retries, and is still to be accounted for."""
    trace: list[JobPhase] = field(default_factory=list)
    earlier: str | None = None
    """The phase of the Job after which the Job runs; None when that does not exist."""
    departed: dict[str, str] = field(default_factory=dict)

    # what the controller does

    def reconcile(self) -> JobDecision:
        self.started, self.evicted = set(), set()
        for _ in range(100):
            decision, arrays = decide(self.facts()), self.job.status.arrays
            for effect in decision.effects:
                self._step()
                self.apply(effect)
            if decision.conclusive and decision.status is not None:
                self._step()
                if (
                    decision.status.state.phase in (JobPhase.COMPLETED, JobPhase.FAILED)
                    and self.job.status.state.phase is RUNNING
                ):
                    later = [each.occurrence for each in decision.armed if each.occurrence.event is not BusEvent.POD_PENDING]
                    assert not later, f"the Job ends before its delayed actions: {later}"
                moved = self.write(decision.status) or self.job.status.arrays != arrays
                self._step()
            else:
                moved = False
            if decision.conclusive or not decision.effects:
                self._settle(decision)
            if decision.conclusive and not moved:
                self.started = {name for name, pod in self.pods.items() if self._has_started(pod)}
                return decision
        raise AssertionError("the controller does not come to rest")

    def facts(self) -> JobFacts:
        # a Command that was carried out is deleted before the next one is begun
        self.orders = [order for order in self.orders if order.command != self.job.status.last_command]
        orders = tuple(self.orders)
        ended = ((each.task, iter((int(each.pod.rpartition("-")[2]),))) for each in self.memory.successes)
        job = members.named(self.job)
        seen = ObservedPods.of(job, self.pods, (*tracked_pods.succeeded(job).items(), *ended))
        there = () if self.earlier is None else (AfterJob(name="build", uid="b", phase=self.earlier),)
        before = {"earlier": (there,), "departed": self.departed} if self.job.spec.after else {}
        return JobFacts(job, self.now, seen, self.group, queue=queue(), marks=MARKS, orders=orders, memory=self.memory, **before)

    def is_held(self) -> bool:
        return self.job.spec.suspend or (
            after.is_held(self.job, self.job.status.after) and self.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING)
        )

    def apply(self, effect):
        match effect:
            case PreparePlugins():
                self.plugin_objects = True
                self.remember(prepared=self.job.metadata.generation, removed=False)
            case RemovePlugins():
                self.plugin_objects = False
                self.remember(prepared=0, removed=True)
            case CreateGroup(manifest):
                assert self.group is None
                assert not self.is_held(), "the PodGroup of a Job that is held"
                self.made += 1
                meta = {**manifest["metadata"], "uid": f"g{self.made}"}
                self.group = decode({**manifest, "metadata": meta, "status": {"phase": "Pending"}}, PodGroup)
            case PatchGroup(_, patch):
                assert self.group is not None
                spec, meta = patch.get("spec", {}), self.group.metadata
                notes = {**meta.annotations, **patch.get("metadata", {}).get("annotations", {})}
                notes = {key: value for key, value in notes.items() if value is not None}
                changed = {"min_member": spec.get("minMember", self.group.spec.min_member)}
                changed["min_task_member"] = {**self.group.spec.min_task_member, **spec.get("minTaskMember", {})}
                resources = {**(self.group.spec.min_resources or {}), **spec.get("minResources", {})}
                changed["min_resources"] = {name: amount for name, amount in resources.items() if amount is not None}
                meta = msgspec.structs.replace(meta, annotations=notes)
                spec = msgspec.structs.replace(self.group.spec, **changed)
                self.group = msgspec.structs.replace(self.group, metadata=meta, spec=spec)
            case DeleteGroup(_, uid):
                if self.group is not None and self.group.metadata.uid == uid:
                    self.group = None
            case CreatePods(slots):
                for slot in slots:
                    self._create(slot)
            case MarkPods(victims):
                for victim in victims:
                    pod = self.pods.get(victim.name)
                    if pod is not None and pod.metadata.uid == victim.uid:
                        self.change(pod, annotations={**pod.metadata.annotations, keys.OUT_OF_SYNC: "true"})
            case DeletePods(victims):
                for victim in victims:
                    pod = self.pods.get(victim.name)
                    if pod is not None and pod.metadata.uid == victim.uid:
                        assert not pod.metadata.is_terminating
                        self.own.add(victim.uid)
                        self.change(pod, deletion_timestamp="2024-01-01T00:00:00Z")
            case WriteStatus(status):
                assert not self.write(status)
            case _:
                raise AssertionError(effect)

    def _create(self, slot) -> None:
        assert not self.is_held(), "pods of a Job that is held"
        assert self.group is not None
        assert self.group.status.phase is not PodGroupPhase.PENDING, "pods before the gang was let in"
        spec = next(each for each in self.job.spec.tasks if each.name == slot.task)
        body = pods.build(self.job, spec, slot.index)
        name = body["metadata"]["name"]
        assert name not in self.pods, f"{name} is made although it is there"
        assert self.successes.pop(name, None) != self.era(), f"{name} runs again although it has succeeded"
        self.made += 1
        self.ended_by_controller.pop(name, None)
        version = body["metadata"]["annotations"][keys.JOB_VERSION]
        uid = f"p{self.made}"
        assert (name, version) not in self.created, f"{name} is made twice at version {version}"
        self.created[name, version] = 1
        meta = {**body["metadata"], "uid": uid, "creationTimestamp": format_time(self.now)}
        self.pods[name] = decode({**body, "metadata": meta, "status": {"phase": "Pending"}}, Pod)

    def write(self, status) -> bool:
        old, new = self.job.status.state.phase, status.state.phase
        if old is not new:
            reachable = {*PROGRESS[old], *(cell.to for cell in MOVES[old].values())}
            assert new in reachable, f"{old} does not lead to {new}"
            self.trace.append(new)
        assert status.version in (self.job.status.version, self.job.status.version + 1)
        assert status.retry_count in (self.job.status.retry_count, self.job.status.retry_count + 1)
        moved = (new, status.version, status.retry_count) != (
            old,
            self.job.status.version,
            self.job.status.retry_count,
        )
        body = written(status)
        before = self.era()
        self.job = msgspec.structs.replace(self.job, status=decode(body, type(status)))
        if before != self.era():
            self.remember(successes=())
        assert written(self.job.status) == body, "what is written is not what is read"
        return moved

    def _settle(self, decision: JobDecision) -> None:
        if decision.order is not None:
            self.orders = [order for order in self.orders if order != decision.order]
        kept = tuple(each for each in self.memory.occurrences if each not in decision.forget)
        self.remember(occurrences=kept, armed=decision.armed)

    def era(self) -> tuple[int, int]:
        return self.job.status.version, self.job.status.retry_count

    def remember(self, **changes) -> None:
        values = {name: getattr(self.memory, name) for name in ("occurrences", "prepared", "removed", "armed", "successes")}
        self.memory = Remembered(**{**values, **changes})

    def _step(self) -> None:
        if self.steps_until_crash is not None:
            if self.steps_until_crash == 0:
                self.steps_until_crash = None
                self.memory = Remembered()
                named = {f"j-{task}-{index}" for task, indexes in tracked_pods.succeeded(self.job).items() for index in indexes}
                self.successes = {name: era for name, era in self.successes.items() if name in named}  # nobody knows the others
                raise Crash
            self.steps_until_crash -= 1

    # what others do

    def change(self, pod: Pod, **meta) -> None:
        self.pods[pod.metadata.name] = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **meta))

    def set_phase(self, name: str, phase: PodPhase, exit_code: int = 0) -> None:
        pod = self.pods[name]
        state = (
            {"terminated": {"exitCode": exit_code, "finishedAt": format_time(self.now)}}
            if phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
            else {}
        )
        container = {"name": "c", "ready": phase is PodPhase.RUNNING, "state": state}
        status = decode({"phase": phase.value, "containerStatuses": [container]}, type(pod.status))
        self.pods[name] = msgspec.structs.replace(pod, status=status)

    def vanish(self, name: str, *, noticed: bool = True) -> None:
        pod = self.pods.pop(name)
        had_ended = members.is_finished(pod) and not pod.metadata.is_terminating
        self.ended_by_controller[name] = pod.metadata.uid in self.own
        if name in self.started and not had_ended and pod.metadata.uid not in self.own:
            self.evicted.add(name)
        self.created.pop((name, pod.metadata.annotations[keys.JOB_VERSION]), None)
        happened = job_events.deleted(self.job, pod, self.now, had_ended=had_ended)
        if happened and happened.event is BusEvent.TASK_COMPLETED and (noticed or tracked_pods.is_success(self.job, pod)):
            self.successes[name] = self.era()
        if happened and noticed:
            kind = "successes" if happened.event is BusEvent.TASK_COMPLETED else "occurrences"
            self.remember(**{kind: (*getattr(self.memory, kind), happened)})

    def _has_started(self, pod: Pod) -> bool:
        notes, status = pod.metadata.annotations, self.job.status
        is_going_away = pod.metadata.is_terminating or keys.OUT_OF_SYNC in notes
        is_of_now = int(notes[keys.JOB_VERSION]) == status.version and not is_ending(status.state.phase)
        return is_of_now and not is_going_away and pod.status.phase is PodPhase.RUNNING

    def going(self) -> list[str]:
        """The pods that were asked to go and whose node obeys."""
        return [name for name, pod in self.pods.items() if pod.metadata.is_terminating and pod.metadata.uid not in self.lost]

    def order(self, action: str) -> None:
        self.made += 1
        self.orders.append(RequestedAction(action, JobReason.COMMAND_ISSUED, "", f"c{self.made}"))

    def admit(self) -> None:
        if self.group is not None and self.group.status.phase is PodGroupPhase.PENDING:
            status = msgspec.structs.replace(self.group.status, phase=PodGroupPhase.INQUEUE)
            self.group = msgspec.structs.replace(self.group, status=status)

    def suspend(self, suspended: bool) -> None:
        spec = msgspec.structs.replace(self.job.spec, suspend=suspended)
        meta = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        self.job = msgspec.structs.replace(self.job, spec=spec, metadata=meta)

    def scale(self, sizes: dict[str, int]) -> None:
        tasks = tuple(
            msgspec.structs.replace(task, replicas=sizes[task.name], min_available=sizes[task.name])
            for task in self.job.spec.tasks
        )
        spec = msgspec.structs.replace(self.job.spec, tasks=tasks, min_available=sum(sizes.values()))
        meta = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        self.job = msgspec.structs.replace(self.job, spec=spec, metadata=meta)
