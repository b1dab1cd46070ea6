"""The facts of a decision, from the caches and from the memory of each Job. Losing the memory does no harm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from zlib import crc32

from pyroclast.api import keys, pod_groups_on_pods
from pyroclast.api.enums import BusEvent, JobReason
from pyroclast.api.records import Command, Job, Pod, PodGroup
from pyroclast.api.schedulers import Schedulers
from pyroclast.api.types import Key
from pyroclast.kube.http.batches import FIRST_BATCH
from pyroclast.lifecycle.effects import Slot
from pyroclast.lifecycle.gang import members, podgroups, seating
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.gang.podgroups import Inherited
from pyroclast.lifecycle.job import after, tracked_pods
from pyroclast.lifecycle.job.facts import JobDecision, JobFacts, Remembered, RequestedAction
from pyroclast.lifecycle.job.job_events import MOST_OCCURRENCES, Occurrence, Response
from pyroclast.resources.pods import Additions
from pyroclast.runtime.reconciler import Memories, Memory
from pyroclast_job_controller.blocked import Blocked, Cause, pause_after
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.job import earlier
from pyroclast_job_controller.plugins.registry import marks_of

HALF_GANG: Final = 30.0
"""Seconds for which a gang that a quota keeps incomplete keeps its pods before the controller deletes them.

The pause before the next try differs between Jobs, so one of two incomplete gangs can become complete.
"""

_QUIET: Final = 1.5
"""Seconds until most new pods run, if the cluster has room for them."""

_FIRST_QUIET: Final = 5.0
"""Seconds until nearly all pods run or have a reason to wait, also while many Jobs come at once."""

_SHORTEST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_LOOKS_APART: Final = 4.0
"""The pause between decisions, as a multiple of the time of the last decision.

So decisions about a large Job that changes continuously use at most a fifth of the time of the controller.
"""

_HELD: Final = (Cause.QUOTA, Cause.LEFTOVER)
"""After these causes, no change of the Job brings the next try forward."""


@dataclass(slots=True)
class JobMemory(Memory):
    """The memory of the controller about one Job. `Remembered` explains the fields that a decision reads."""

    given_up: RequestedAction | None = None
    """The requested termination of the Job after too many refusals; None when there is no such request."""
    occurrences: list[Occurrence] = field(default_factory=list)
    successes: list[Occurrence] = field(default_factory=list)
    successes_of: tuple[int, int] = (0, 0)
    """The version and the number of restarts of the Job to which `successes` apply."""
    prepared: int = 0
    prepared_at: float = 0.0
    removed: bool = False
    additions: Additions | None = None
    carried: Inherited | None = None
    objects: dict[str, str] = field(default_factory=dict)
    """The uids of the plugin objects that this controller created, by kind and name."""
    recorded: dict[str, str] = field(default_factory=dict)
    """The message of the last Event, by reason. The same Event is not recorded again."""
    quiet_since: float | None = None
    """When a status that differs only in created pods was first held back, in seconds by the monotonic clock; else None."""
    armed: tuple[Response, ...] = ()
    deleted: set[str] = field(default_factory=set)
    """The uids of pods whose deletion needs no response any more, until they are gone, as this controller deletes them."""
    vanished: list[Occurrence] = field(default_factory=list)
    """The occurrences of pods that left the watch without a deletion timestamp. Such a pod may only have lost its labels."""
    refused: str = ""
    was_refused: bool = False
    """Whether the last try failed, for any cause."""
    cause: Cause | None = None
    """The cause of the last refusal; None when the last try succeeded."""
    next_batch: int = FIRST_BATCH
    """How many pods are created at once at first. More when all creations of the last turn succeeded and pods were left."""
    is_new: bool = True
    """Whether this replica has not reconciled the Job since it began to lead."""
    refusals: int = 0
    """The number of consecutive refusals with `cause`."""
    faults: int = 0
    """The number of consecutive refusals because of a fault. Other causes do not count."""
    short_since: float | None = None
    """When a quota first prevented the gang from being complete, in seconds since the epoch; None when no quota does."""
    next_try: float = 0.0
    """The time of the next try, in seconds since the epoch."""
    nodes_asked: float = -math.inf
    """When the nodes of terminating pods were last read, in seconds since the epoch."""
    seats_of: str = ""
    """The identity of the seats to which `seated`, `asked_since` and `seats_refused` apply."""
    seated: set[Slot] = field(default_factory=set)
    asked_since: float | None = None
    seats_refused: str = ""
    closed: int = 0
    """The number of consecutive tries that found the namespace terminating."""
    closed_until: float = 0.0
    """When the next try in the terminating namespace is due, in seconds since the epoch."""

    def seats(self, group: PodGroup | None) -> JobMemory:
        """Return this memory, after it has dropped its facts about other seats than the present seats of `group`."""
        if self.seats_of != (now := seating.standing(group)):
            self.seats_of, self.seated, self.seats_refused, self.asked_since = now, set(), "", None
        return self

    def snapshot(self, now: float, group: PodGroup | None = None) -> Remembered:
        """Return a copy for a decision at `now`, in seconds since the epoch. `group`: the PodGroup; None when there is none."""
        self.seats(group)
        if not seating.awaits_placement(group):
            self.asked_since = None
        elif self.asked_since is None:
            self.asked_since = now
        return Remembered(
            tuple(self.occurrences),
            self.prepared,
            self.removed,
            self.armed,
            self.prepared_at,
            self.refused,
            additions=self.additions,
            successes=tuple(self.successes),
            carried=self.carried,
            held=self.cause in _HELD and now < self.next_try,
            gives_back=self.short_since is not None and now >= self.short_since + HALF_GANG,
            seated=frozenset(self.seated),
            seats_refused=self.seats_refused,
            asked_since=self.asked_since,
        )

    def got_on(self) -> None:
        """Reset the record of refusals after a try without refusals."""
        self.refusals = self.faults = self.closed = 0
        self.next_try, self.short_since, self.cause = 0.0, None, None
        self.refused, self.was_refused = "", False

    def quiet_left(self, *, is_first: bool) -> float:
        """Return the seconds for which a status write that only counts new pods can still wait.

        `is_first`: the Job has no status yet, and its only pod is created at once.
        """
        now = self.pace.clock()
        self.quiet_since = now if self.quiet_since is None else self.quiet_since
        return max(0.0, self.quiet_since + (_FIRST_QUIET if is_first else _QUIET) - now)

    def was_stopped(self, refusal: Blocked, now: float) -> bool:
        """Count a refusal and set the time of the next try.

        Return False when the refusal does not count, because it happened before the time of the next try.
        """
        self.refused, self.was_refused = str(refusal), True
        if refusal.cause is not self.cause:
            self.refusals, self.next_try, self.cause = 0, 0.0, refusal.cause
        if refusal.cause is Cause.QUOTA and self.short_since is None:
            self.short_since = now
        if now < self.next_try:
            return False
        self.next_try = now + pause_after(refusal.cause, self.refusals)
        self.refusals += 1
        self.faults += refusal.cause is Cause.FAULT
        return True

    def gave_back(self, now: float) -> None:
        """Delay the next try, because the pods of the incomplete gang were deleted in favour of other Jobs."""
        self.short_since, self.next_try = None, now + HALF_GANG * (1 + crc32(self.uid.encode()) % 8 / 8)

    def done_with(self, facts: JobFacts, decision: JobDecision) -> None:
        """Forget the occurrences and the termination request that `decision` on `facts`, which was carried out, has handled."""
        self.additions = facts.additions
        if decision.order is not None and decision.order == self.given_up:
            self.given_up = None
        self.forget(decision.forget)

    def forget(self, occurrences: frozenset[Occurrence]) -> None:
        """Forget `occurrences`, which need no response any more."""
        if occurrences:
            self.occurrences = [occurrence for occurrence in self.occurrences if occurrence not in occurrences]

    def arm(self, responses: tuple[Response, ...]) -> list[Response]:
        """Replace the delayed responses with `responses`; return the responses that are new."""
        known = {(response.occurrence, response.action) for response in self.armed}
        self.armed = responses
        return [response for response in responses if (response.occurrence, response.action) not in known]

    def notice(self, occurrence: Occurrence, job: Job) -> None:
        """Remember `occurrence` of `job` until it has its response; the success of a deleted pod until the status names it."""
        is_success = occurrence.event is BusEvent.TASK_COMPLETED
        noticed = self.successes_for(job) if is_success else self.occurrences
        noticed.append(occurrence)
        del noticed[:-MOST_OCCURRENCES]  # the oldest

    def successes_for(self, job: Job) -> list[Occurrence]:
        """Return the successes of deleted pods of `job`. A restart forgets them, as its status write names those that last."""
        present = job.status.version, job.status.retry_count
        if self.successes_of != present:
            self.successes_of, self.successes = present, []
        return self.successes


class JobMemories(Memories[Job, JobMemory]):
    """The memories of all Jobs."""

    def pause(self, key: Key) -> float:
        """Return the seconds for which changes of the pods are coalesced: a multiple of the time of the last decision."""
        memory = self.known(key)
        return max(_SHORTEST_PAUSE, min(_LOOKS_APART * memory.look_seconds, _LONGEST_PAUSE)) if memory else _SHORTEST_PAUSE


def facts_of(
    caches: Caches,
    job: Job,
    memory: JobMemory,
    commands: Iterable[Command],
    now: float,
    *,
    schedulers: Schedulers | None = None,
    own_schedulers: frozenset[str] = frozenset(),
    may_lack_group: bool = False,
) -> JobFacts:
    """Return the facts about `job` at `now`. `JobFacts` explains the arguments; `commands`: the pending Commands for the Job.

    A PodGroup whose name is the name of the Job, as in early versions of Volcano, counts only if `job` owns it. `may_lack_group`:
    whether a Job of one pod gets no PodGroup.
    """
    job, namespace = members.named(job), job.metadata.namespace
    place_of = partial(members.place_of, job.metadata.name)
    ended = ((task, iter((index,))) for task, index in (place_of(each.pod) for each in memory.successes_for(job)))
    group = caches.groups.get(Key(namespace, members.group_name(job)))
    if group is None:
        legacy = caches.groups.get(Key(namespace, job.metadata.name))
        group = legacy if legacy and members.is_ours(job, legacy.metadata) else None
    members_of_job = caches.pods.members(job.metadata.uid)
    has_no_group = group is None and may_lack_group and _lacks_group(caches, job, members_of_job.values())
    if has_no_group:
        group = next(filter(None, map(pod_groups_on_pods.group_of, members_of_job.values())), None)
    nodes = {pod.spec.node_name for pod in members_of_job.values() if pod.spec.node_name}
    silent = {name: node.silent_since for name in nodes if (node := caches.nodes.get(Key("", name))) and node.silent_since}
    claims = (volume.volume_claim_name for volume in job.spec.volumes if volume.volume_claim_name)
    waits = after.is_waiting(job) and not job.status.state.phase.is_finished
    return JobFacts(
        job,
        now,
        pods=ObservedPods.of(job, members_of_job, (*tracked_pods.succeeded(job).items(), *ended)),
        group=group,
        has_no_group=has_no_group,
        queue=caches.queues.get(Key("", job.spec.queue)),
        claims=frozenset(name for name in claims if caches.claims.get(Key(namespace, name))),
        additions=caches.additions.of(namespace),
        priorities={each.metadata.name: each.value for each in caches.priorities.values()},
        marks=marks_of(job),
        orders=(*map(_order_of, commands), *((memory.given_up,) if memory.given_up else ())),
        memory=memory.snapshot(now, group),
        schedulers=schedulers,
        silent_nodes=silent,
        own_schedulers=own_schedulers,
        earlier=earlier.states(caches, job) if waits else (),
        departed=caches.departed,
        cycle=tuple(after.cycle_of(job, partial(earlier.jobs_of, caches))) if waits else (),
    )


def _lacks_group(caches: Caches, job: Job, pods: Iterable[Pod]) -> bool:
    """Whether `job`, which has no PodGroup, needs none: its pod describes the group, or will do so.

    A queue that forwards Jobs, or a namespace with a queue of its own, needs the PodGroup.
    """
    queue, namespace = caches.queues.get(Key("", job.spec.queue)), caches.namespaces.get(Key("", job.metadata.namespace))
    is_elsewhere = queue is not None and bool(queue.spec.extend_clusters)
    is_moved = namespace is not None and keys.SCHEDULING_QUEUE_NAME in namespace.metadata.annotations
    return not (podgroups.needs_object(job) or is_elsewhere or is_moved) and all(map(pod_groups_on_pods.is_described, pods))


def _order_of(command: Command) -> RequestedAction:
    message = command.message or f"{command.action} was asked for by a command"
    return RequestedAction(command.action, JobReason.COMMAND_ISSUED, message, command.metadata.uid)
