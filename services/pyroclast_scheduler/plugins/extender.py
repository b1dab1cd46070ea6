"""Plugin extender: an external HTTP service takes part in scheduling decisions, by one request for each hook that is configured.

The requests have the field names of Volcano's Go types. A response with a field of the wrong type is invalid as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Amounts, Ints
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, VictimRule, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

VERBS: Final = (
    "onSessionOpen",
    "onSessionClose",
    "predicate",
    "prioritize",
    "preemptable",
    "reclaimable",
    "queueOverused",
    "jobEnqueueable",
    "jobEnqueued",
    "jobReady",
    "allocateFunc",
    "deallocateFunc",
)
_LARGEST_SCORE: Final = 2.0**53  # with larger scores, those of other plugins would be lost in rounding
_CODES: Final = {2: Code.UNSCHEDULABLE, 3: Code.UNRESOLVABLE}


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The arguments of the plugin. `prefix`: the common part of the URLs. `timeout`: in seconds.

    `verbs`: the last part of the URL of each configured hook. `is_ignorable`: whether decisions continue if the extender does not
    respond. `managed`: the resources that the extender manages; empty if it manages all pods.
    """

    prefix: str = ""
    timeout: float = 1.0
    verbs: Mapping[str, str] = field(default_factory=dict)
    is_ignorable: bool = False
    managed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, arguments: Arguments) -> ExtenderSettings:
        """Return the settings that the arguments of the plugin define."""
        arguments.known.add("extender.managedResources")
        managed = arguments.get("extender.managedResources") or []
        if not isinstance(managed, list) or not all(isinstance(each, str) for each in managed):
            arguments.warnings.append(f"argument extender.managedResources: {managed!r} is no list of names; it is passed over")
            managed = []
        verbs = {hook: arguments.text(f"extender.{hook}Verb", "") for hook in VERBS}
        return cls(
            arguments.text("extender.urlPrefix", "").rstrip("/"),
            arguments.seconds("extender.httpTimeout", "1s", least="1ms"),
            {hook: verb for hook, verb in verbs.items() if verb},
            arguments.boolean("extender.ignorable", default=False),
            frozenset(managed),
        )


def is_managed(spec: records.PodSpec, managed: frozenset[str]) -> bool:
    """Whether a pod requests or limits one of the `managed` resources. True for every pod if there are none."""
    if not managed:
        return True
    containers = (*spec.containers, *spec.init_containers)
    return any(managed & {*each.resources.requests, *each.resources.limits} for each in containers)


def task_body(session: PluginSession, task: Task) -> dict[str, Any]:
    """Return the JSON of a task."""
    facts = task.facts
    return {
        "UID": facts.uid,
        "Job": facts.job,
        "Name": facts.name,
        "Namespace": facts.namespace,
        "NodeName": session.names[task.row] if task.row >= 0 else "",
        "Status": 1 << int(task.status),
        "Priority": facts.priority,
        "Preemptable": facts.is_preemptable,
        "Resreq": _resource(facts.shape.request),
    }


def job_body(job: Job) -> dict[str, Any]:
    """Return the JSON of a PodGroup."""
    facts = job.facts
    return {
        "UID": facts.key,
        "PgUID": facts.uid,
        "Name": facts.name,
        "Namespace": facts.namespace,
        "Queue": facts.queue,
        "Priority": facts.priority,
        "MinAvailable": facts.min_available,
    }


def queue_body(queue: Queue) -> dict[str, Any]:
    """Return the JSON of a queue."""
    return {"UID": queue.name, "Name": queue.name, "Weight": queue.facts.weight}


def node_body(session: PluginSession, row: int) -> dict[str, Any]:
    """Return the JSON of a node with its allocatable and used amounts."""
    columns, names = session.columns, session.dimensions.names
    tables = {
        "Allocatable": columns.allocatable,
        "Used": columns.used,
        "Idle": columns.idle(),
        "Releasing": columns.releasing,
        "Pipelined": columns.pipelined,
    }
    amounts = {key: _resource(dict(zip(names, table[:, row].tolist(), strict=True))) for key, table in tables.items()}
    return {"Name": session.names[row], **amounts}


def session_body(session: PluginSession, rows: Sequence[int]) -> dict[str, Any]:
    """Return the JSON of all jobs, nodes and queues, for the start of a session."""
    return {
        "Jobs": {job.facts.key: job_body(job) for job in session.jobs.values()},
        "Nodes": {session.names[row]: node_body(session, row) for row in rows},
        "Queues": {name: queue_body(queue) for name, queue in session.queues.items()},
        "NamespaceInfo": {},
        "RevocableNodes": {},
        "NodeList": None,
    }


def _resource(amounts: Amounts) -> dict[str, Any]:
    scalars = {name: float(amount) for name, amount in amounts.items() if amount and name not in {"cpu", "memory"}}
    basic = {"MilliCPU": float(amounts["cpu"]), "Memory": float(amounts["memory"]), "MaxTaskNum": amounts["pods"]}
    return {**basic, "ScalarResources": scalars}


class Anything(msgspec.Struct, frozen=True, rename="camel"):
    """A response whose content is ignored. Go encodes empty values as null."""


class Predicate(Anything, frozen=True):
    """The response to a predicate request. `status`: the reason of a refusal. `code`: the finality of the refusal."""

    status: str | None = None
    code: int | None = None


class Scores(Anything, frozen=True):
    """The extender's scores of nodes. `node_score`: by name of the node."""

    node_score: dict[str, float] | None = None
    error_message: str | None = None


class Victim(Anything, frozen=True):
    """A pod that may be evicted, as the extender names it."""

    uid: str = msgspec.field(name="UID")


class Victims(Anything, frozen=True):
    """The pods that the extender would evict. `status`: 0 means that it abstains."""

    status: int | None = None
    victims: list[Victim] | None = None


class Enqueueable(Anything, frozen=True):
    """The response whether a job may be enqueued. `status`: above 0 permits, below 0 rejects, 0 abstains."""

    status: int | None = None


class Overused(Anything, frozen=True):
    """The response whether a queue exceeds its share."""

    overused: bool | None = None


class Ready(Anything, frozen=True):
    """The response whether a job is ready."""

    status: bool | None = None


class Objection(Anything, frozen=True):
    """The response why a placement must be undone."""

    error_message: str | None = None


def decoded(text: bytes, kind: type[A]) -> A:
    """Parse a response, or raise ValueError if the text is not a JSON object of that kind."""
    try:
        answer = msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error
    scores = answer.node_score if isinstance(answer, Scores) else None
    if not all(-_LARGEST_SCORE <= score <= _LARGEST_SCORE for score in (scores or {}).values()):
        raise ValueError("a score of `$.nodeScore` is out of range")
    return answer


A = TypeVar("A", bound=Anything)


class Unanswered(Exception):
    """The extender did not respond, or its response was invalid."""


class ExtenderPlugin:
    """The plugin extender. For its arguments, see `ExtenderSettings`."""

    def __init__(self, arguments: Arguments) -> None:
        self._settings = ExtenderSettings.of(arguments)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions for the configured hooks; none if a needed extender does not respond to the opening request."""
        asking = _Asking(session, self._settings)
        uses = self._settings.verbs
        if "onSessionOpen" in uses:
            try:
                asking.post("onSessionOpen", session_body(session, np.flatnonzero(session.nodes.usable).tolist()), Anything)
            except Unanswered as error:
                asking.warn(error)
                if not self._settings.is_ignorable:
                    return Extensions()
        return Extensions(
            coupled_predicate=asking.refusals if "predicate" in uses else None,
            batch_node_order=asking.scores if "prioritize" in uses else None,
            preemptable=asking.victims("preemptable") if "preemptable" in uses else None,
            reclaimable=asking.victims("reclaimable") if "reclaimable" in uses else None,
            job_enqueueable=asking.enqueueable if "jobEnqueueable" in uses else None,
            job_enqueued=asking.enqueued if "jobEnqueued" in uses else None,
            overused=asking.overused if "queueOverused" in uses else None,
            job_ready=asking.ready if "jobReady" in uses else None,
            moved=asking.moved if {"allocateFunc", "deallocateFunc"} & uses.keys() else None,
            objection=asking.objection if "allocateFunc" in uses else None,
            close=asking.closed if "onSessionClose" in uses else None,
        )


class _Asking:
    """The requests of one session. A response for a pod and a node is used until the pods of that node change."""

    def __init__(self, session: PluginSession, settings: ExtenderSettings) -> None:
        self._session = session
        self._extender = session.extender()
        self._settings = settings
        self._said: dict[int, dict[str, Refusal | None]] = {}
        self._seen = 0
        self._objections: dict[str, str] = {}  # by UID of the tasks that were placed last

    def post(self, hook: str, body: Any, kind: type[A]) -> A:  # noqa: ANN401 - any JSON
        """Return the response to the request of a hook, or raise Unanswered if there was none, or an invalid one."""
        url = f"{self._settings.prefix}/{self._settings.verbs[hook]}"
        try:
            answer = self._extender.post(url, msgspec.json.encode(body), timeout=self._settings.timeout)
            return decoded(answer, kind)
        except (OSError, ValueError) as error:
            raise Unanswered(f"{url}: {error}") from error

    def warn(self, error: Unanswered) -> None:
        """Add a warning once, since the same request is often repeated for many pods and nodes."""
        warning = f"plugin extender: {error}"
        if warning not in self._session.report.warnings:
            self._session.report.warnings.append(warning)

    def refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """Return the feasible nodes that the extender refuses; None for pods that it does not manage."""
        if not self._is_managed(task):
            return None
        rows = np.flatnonzero(plan.mask)
        rows = rows[plan.room(rows, future=True) > 0]
        log = self._session.moves.log
        for row in (row for nodes in log[self._seen :] for row in nodes.tolist()):
            self._said.pop(row, None)
        self._seen = len(log)
        for row in rows.tolist():
            answers = self._said.setdefault(row, {})
            if task.uid not in answers:
                answers[task.uid] = self._refusal(task, row)
        return [refusal for row in rows.tolist() if (refusal := self._said[row][task.uid]) is not None]

    def scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        del job, plan
        if not self._is_managed(task):
            return None
        rows = np.flatnonzero(candidates).tolist()
        body = {"task": task_body(self._session, task), "nodes": [node_body(self._session, row) for row in rows]}
        scores = np.zeros(len(candidates))
        answer = self._asked("prioritize", body, Scores)
        if answer is None or answer.error_message:
            return scores
        found = answer.node_score or {}
        scores[rows] = [found.get(self._session.names[row], 0.0) for row in rows]
        return scores

    def victims(self, hook: str) -> VictimRule:
        """Return the rule that asks the extender for victims by the request of `hook`."""

        def rule(preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate] | None:
            del job
            if not self._is_managed(preemptor):
                return None
            evictees = [task_body(self._session, task) for _, task in candidates]
            answer = self._asked(hook, {"evictor": task_body(self._session, preemptor), "evictees": evictees}, Victims)
            if answer is None:
                return []
            if answer.status == Vote.ABSTAIN:
                return None
            uids = {each.uid for each in answer.victims or ()}
            return [each for each in candidates if each[1].uid in uids]

        return rule

    def enqueueable(self, job: Job) -> Vote:
        answer = self._asked("jobEnqueueable", {"job": job_body(job)}, Enqueueable)
        if answer is None:
            return Vote.PERMIT if self._settings.is_ignorable else Vote.REJECT
        status = answer.status or 0
        return Vote((status > 0) - (status < 0))

    def enqueued(self, job: Job) -> None:
        self._asked("jobEnqueued", {"job": job_body(job)}, Anything)

    def overused(self, queue: Queue, extra: Ints) -> bool:
        """Whether the extender reports the queue as overused; without a response, true unless the extender is ignorable."""
        del extra
        answer = self._asked("queueOverused", {"queue": queue_body(queue)}, Overused)
        return not self._settings.is_ignorable if answer is None else bool(answer.overused)

    def ready(self, job: Job) -> bool:
        """Whether the extender reports the job as ready; without a response, true if the extender is ignorable."""
        answer = self._asked("jobReady", {"job": job_body(job)}, Ready)
        return self._settings.is_ignorable if answer is None else bool(answer.status)

    def moved(self, move: Move, sign: int) -> None:
        is_taken = (move.status is not TaskStatus.RELEASING) == (sign > 0)
        hook = "allocateFunc" if is_taken else "deallocateFunc"
        for task in move.tasks if hook in self._settings.verbs else ():
            if self._is_managed(task):
                answer = self._asked(hook, {"task": task_body(self._session, task)}, Objection)
                missing = "" if self._settings.is_ignorable else "extender does not answer"
                self._objections[task.uid] = missing if answer is None else answer.error_message or ""

    def objection(self, move: Move) -> str | None:
        return next((why for task in move.tasks if (why := self._objections.pop(task.uid, ""))), None)

    def closed(self) -> None:
        self._asked("onSessionClose", {}, Anything)

    def _refusal(self, task: Task, row: int) -> Refusal | None:
        here = np.zeros(len(self._session.names), dtype=np.bool_)
        here[row] = True
        body = {"task": task_body(self._session, task), "node": node_body(self._session, row)}
        answer = self._asked("predicate", body, Predicate)
        if answer is None:
            return None if self._settings.is_ignorable else Refusal(here, "extender does not answer", Code.ERROR)
        if not answer.status and not answer.code:
            return None
        return Refusal(here, answer.status or "refused by extender", _CODES.get(answer.code or 0, Code.ERROR))

    def _asked(self, hook: str, body: Any, kind: type[A]) -> A | None:  # noqa: ANN401 - any JSON
        try:
            return self.post(hook, body, kind)
        except Unanswered as error:
            self.warn(error)
            return None

    def _is_managed(self, task: Task) -> bool:
        return is_managed(task.facts.pod.spec, self._settings.managed)
