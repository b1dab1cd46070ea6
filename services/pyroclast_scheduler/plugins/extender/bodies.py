"""The requests to an extender: tasks, jobs, nodes and queues with the field names of Volcano's Go types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session


def task_body(session: Session, task: Task) -> dict[str, Any]:
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


def node_body(session: Session, row: int) -> dict[str, Any]:
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


def session_body(session: Session, rows: Sequence[int]) -> dict[str, Any]:
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
