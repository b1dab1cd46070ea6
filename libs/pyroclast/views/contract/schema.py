"""The items of lists, and the JSON Schema of all documents: `python -m pyroclast.views.contract.schema PATH` writes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.views.contract import API_VERSION
from pyroclast.views.contract.explanations import Explanation, FlowTree, NodeExplanation, Quantities, QueueExplanation, Record


class WaitingJob(Record, frozen=True, kw_only=True):
    """A waiting Job or native PodGroup; `object` is its kind.

    `start`: three times, `never`, or null. Queue and pods are null for a Job that its flow will create later.
    """

    position: int | None
    namespace: str
    name: str
    queue: str | None
    priority: str | None
    pods: int | None
    asks: Quantities
    waited_seconds: int
    code: PendingReason
    start: list[str] | Literal["never"] | None
    never: bool
    sentence: str
    since: str
    object: str


class RunningJob(Record, frozen=True, kw_only=True):
    """A running Job or native PodGroup."""

    namespace: str
    name: str
    queue: str
    pods: int
    ready: int
    nodes: int
    asks: Quantities
    elapsed_seconds: int
    ends: str | None
    health: str
    phase: str
    retries: int
    object: str


class WaitingPlace(Record, frozen=True, kw_only=True):
    """A position in the order of a queue. There is one more field for each plugin that orders jobs, by the plugin's name."""

    position: int
    namespace: str
    name: str | None
    priority: int | None
    waited_seconds: int
    asks: Quantities
    code: PendingReason | None
    start: list[str] | Literal["never"] | None


class ArrayState(Record, frozen=True, kw_only=True):
    """The indexes of an array task in one state."""

    namespace: str
    name: str
    task: str
    state: str
    count: int
    indexes: str


class QueueShare(Record, frozen=True, kw_only=True):
    """One resource of a queue.

    For a queue without requests, `resource` is null and the amounts are absent.
    """

    name: str
    label: str
    parent: str | None
    weight: int
    state: str | None
    waiting: int
    running: int
    oldest_seconds: int | None
    resource: str | None
    guarantee: str | UnsetType | None = UNSET
    deserved: str | UnsetType | None = UNSET
    allocated: str | UnsetType | None = UNSET
    borrowed: str | UnsetType | None = UNSET
    limit: str | UnsetType | None = UNSET


class NodeGroup(Record, frozen=True, kw_only=True):
    """A group of equal nodes, and their free resources."""

    group: str
    state: str
    nodes: int
    cpu_free: str
    memory_free: str
    devices_free: Quantities
    largest_free: Quantities
    pods: int
    reserved_for: list[str]
    names: list[str]
    name: str | UnsetType = UNSET


class PodTimeline(Record, frozen=True, kw_only=True):
    """When a pod reached each stage, in seconds since its Job was created."""

    name: str
    node: str | None
    created_seconds: int | None
    bound_seconds: int | None
    started_seconds: int | None
    ready_seconds: int | None
    ended_seconds: int | None
    restarts: int
    phase: str


class ResourceUsage(Record, frozen=True, kw_only=True):
    """The fraction of requested resources that is used; null where nothing was measured."""

    name: str
    pods: int
    cpu: str | None
    cpu_percent: int | None
    cpu_asked: str | None
    memory: str | None
    memory_percent: int | None
    memory_asked: str | None
    gpu: str | None
    gpu_percent: int | None
    gpu_asked: str | None
    namespace: str | UnsetType = UNSET
    job: str | UnsetType = UNSET
    task: str | UnsetType = UNSET


class Step(Record, frozen=True, kw_only=True):
    """A phase that a Job entered, or a cause for which the Job waited."""

    at: str
    name: str
    message: str | None


class JobRecord(Record, frozen=True, kw_only=True):
    """A past Job or native PodGroup; amounts are in thousandths or MiB, multiplied by seconds, null if no longer known."""

    object: str | UnsetType = UNSET
    namespace: str
    name: str
    uid: str
    queue: str | None
    user: str
    flow: str | None
    owner: str | None
    state: str
    reason: str | None
    message: str | None
    exit_code: int | None
    submitted: str | None
    started: str | None
    ended: str | None
    waited_seconds: int | None
    elapsed_seconds: int | None
    gang_size: int | None
    pods: int | None
    nodes: int | None
    domains: list[str] | UnsetType = UNSET
    retries: int
    shape: str | None
    image: str | None
    estimate: Any
    labels: dict[str, str]
    asked: dict[str, int] | None
    doubtful: dict[str, int] | None
    cpu_hours: float | UnsetType | None = UNSET
    gpu_hours: float | UnsetType | None = UNSET
    doubtful_cpu_hours: float | UnsetType | None = UNSET
    made_by: dict[str, Any] | UnsetType | None = UNSET
    use: dict[str, Any] | UnsetType = UNSET
    tries: list[dict[str, Any]] | UnsetType = UNSET
    phases: list[Step] | UnsetType = UNSET
    causes: list[Step] | UnsetType = UNSET
    tasks: list[dict[str, Any]] | UnsetType = UNSET
    evictions: list[dict[str, Any]] | UnsetType = UNSET


class JobEfficiency(Record, frozen=True, kw_only=True):
    """The requested and used amount of one resource of a task."""

    task: str
    resource: str
    asked_hours: float
    used_hours: float | None
    peak: str | None
    peak_pod: str | None
    efficiency: str | None
    name: str | UnsetType = UNSET


class UsageRecord(Record, frozen=True, kw_only=True):
    """The requested and used amounts of a period; there is one more field for each field of `--by`."""

    period: str
    asked: int
    used: int | None
    doubtful: int
    jobs: int
    failed: int
    asked_hours: float
    used_hours: float | None
    doubtful_hours: float | None
    efficiency: str | None


class ClusterRecord(Record, frozen=True, kw_only=True):
    """The allocated, reserved, idle and unavailable resources of the nodes."""

    resource: str
    allocated: int
    reserved: int
    idle: int
    down: int
    total: int
    allocated_hours: float
    reserved_hours: float
    idle_hours: float
    down_hours: float
    total_hours: float
    share: str | None


class WaitRecord(Record, frozen=True, kw_only=True):
    """How long Jobs of a queue and a size waited."""

    queue: str
    pods: str
    jobs: int
    p50: int = msgspec.field(name="p50Seconds")
    p90: int = msgspec.field(name="p90Seconds")
    p99: int = msgspec.field(name="p99Seconds")


class EstimateRecord(Record, frozen=True, kw_only=True):
    """How often the predicted starts of a queue came true. `basis`: the number of predictions for each basis."""

    queue: str
    predictions: int
    held: int
    early: int
    late: int
    p50_width_seconds: int | None
    p50_error_seconds: int | None
    basis: dict[str, int]
    held_share: str | None
    early_share: str | None
    late_share: str | None
    basis_text: str | None


class EvictionRecord(Record, frozen=True, kw_only=True):
    """The number of pods of `queue`, and of their Jobs, that were evicted for the queue `for` by an action; null if unknown."""

    queue: str
    taker: str | None = msgspec.field(name="for")
    action: str | None
    pods: int
    jobs: int


class ActionRecord(Record, frozen=True, kw_only=True):
    """Something that was done to a Job or a queue. `user`: null where nobody knows who did it."""

    at: str
    user: str | None
    verb: str
    kind: str
    namespace: str | None
    name: str
    uid: str
    message: str | None


class QueueSeries(Record, frozen=True, kw_only=True):
    """The mean amounts of a queue in a minute, an hour or a day; null where nothing is known, and for no `capability`."""

    at: str
    queue: str
    resource: str
    guarantee: str | None
    deserved: str | None
    capability: str | None
    allocated: str | None
    requested: str | None
    waiting: str | None
    used: str | None
    evictions: int | None


class NodeSeries(Record, frozen=True, kw_only=True):
    """The mean amount of a resource on all nodes, and on nodes that were not ready or cordoned; of `nodes`, their number."""

    at: str
    resource: str
    total: str
    away: str


class QueueBudget(Record, frozen=True, kw_only=True):
    """The budget of a queue for a resource in a period, and its remaining part; null where nothing is known.

    An invalid budget only has a name and a problem.
    """

    name: str
    resource: str | UnsetType = UNSET
    period: str | UnsetType = UNSET
    limit_hours: float | UnsetType = UNSET
    spent_hours: float | UnsetType | None = UNSET
    doubtful_hours: float | UnsetType | None = UNSET
    left_hours: float | UnsetType | None = UNSET
    hours_per_day: float | UnsetType | None = UNSET
    begins: str | UnsetType | None = UNSET
    ends: str | UnsetType | None = UNSET
    used_up_at: str | UnsetType | None = UNSET
    at_end: str | UnsetType = UNSET
    as_of: str | UnsetType | None = UNSET
    problem: str | None


class PersonLimit(Record, frozen=True, kw_only=True):
    """A limit of one person in a queue, and how much of it the person uses. `class`: the class of service that it counts; empty
    for all. `limited`: running Jobs, waiting Jobs, run time, or a resource.

    An invalid annotation only has a name and a problem.
    """

    name: str
    person: str | UnsetType = UNSET
    service_class: str | UnsetType = msgspec.field(name="class", default=UNSET)
    limited: str | UnsetType = UNSET
    used: str | UnsetType | None = UNSET
    limit: str | UnsetType = UNSET
    problem: str | None


class HealthCheck(Record, frozen=True, kw_only=True):
    """A check of `vcctl doctor`. `text`: what is wrong, or why that is unknown. `runbook`: a page of the documentation."""

    check: str
    state: Literal["ok", "wrong", "unknown"]
    severity: str
    text: str
    help: str
    runbook: str


LISTS: Final[Mapping[str, type[Record]]] = {
    **{
        each.__name__: each
        for each in (
            WaitingJob,
            RunningJob,
            WaitingPlace,
            ArrayState,
            QueueShare,
            NodeGroup,
            PodTimeline,
            JobRecord,
            JobEfficiency,
            UsageRecord,
            ClusterRecord,
            WaitRecord,
            EstimateRecord,
            EvictionRecord,
            ActionRecord,
            QueueSeries,
            NodeSeries,
            QueueBudget,
            PersonLimit,
            HealthCheck,
        )
    },
    **dict.fromkeys(("JobUsage", "TaskUsage", "QueueUsage", "NodeUsage"), ResourceUsage),
}
"""The record of an item, by the kind of its list without the ending `List`."""


DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
PREFIX: Final = "#/$defs/"
SINGLE: Final = (Explanation, QueueExplanation, NodeExplanation, FlowTree)


def schema() -> dict[str, Any]:
    """Return the schema: a document has one of the kinds in `$defs`. Unknown fields are allowed, because later versions may add
    some.
    """
    records = [*SINGLE, *dict.fromkeys(LISTS.values())]
    _, components = msgspec.json.schema_components(records, ref_template=f"{PREFIX}{{name}}")
    lists = {f"{kind}List": _list_of(kind, record.__name__) for kind, record in LISTS.items()}
    kinds = [*(each.__name__ for each in SINGLE), *lists]
    return {
        "$schema": DRAFT,
        "title": API_VERSION,
        "oneOf": [{"$ref": f"{PREFIX}{kind}"} for kind in kinds],
        "$defs": dict(sorted({**components, **lists}.items())),
    }


def _list_of(kind: str, record: str) -> dict[str, Any]:
    fields = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": f"{kind}List"},
        "items": {"type": "array", "items": {"$ref": f"{PREFIX}{record}"}},
    }
    return {"title": f"{kind}List", "type": "object", "properties": fields, "required": list(fields)}


def main(path: str) -> int:
    """Write the JSON Schema of the documents to `path`; return the exit status."""
    Path(path).write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
