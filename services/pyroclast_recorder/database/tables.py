"""The tables of the recorder, and how two views of one row become one.

Times are whole seconds since the epoch in UTC. Amounts are whole: cpu in millicores, memory and storage in MiB, anything else in
thousandths; of usage, the same times seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text, text

__all__ = [
    "FLOW_ENDED",
    "METADATA",
    "PREPARED",
    "SCHEDULED",
    "Merge",
    "Row",
    "composites",
    "cursors",
    "dirty_hours",
    "gaps",
    "job_alikes",
    "job_causes",
    "job_phases",
    "jobs",
    "merge_of",
    "node_states",
    "owners",
    "pod_use",
    "pods",
    "predictions",
    "queue_minutes",
    "reservations",
    "trace_step",
    "usage_days",
    "usage_hours",
]

Row: TypeAlias = Mapping[str, Any]
METADATA: Final = MetaData()


class Merge(Enum):
    """How a column of two rows with the same key becomes one. Each is commutative, associative and idempotent.

    FIRST is the smaller and LAST the larger of two values that are there; LATEST is that of the row with the larger `version`.
    """

    FIRST = "first"
    LAST = "last"
    LATEST = "latest"


def trace_step(name: str) -> str:
    """`Prepared` or `Scheduled`, if a row of `job_causes` of that name is such a step of a trace; empty for a cause."""
    step = name.partition(" ")[0]
    return step if step in _TRACE_STEPS else ""


def merge_of(column: Column[Any]) -> Merge:
    """How a column merges."""
    return column.info.get("merge", Merge.LATEST)  # type: ignore[no-any-return]


def _key(name: str) -> Column[Any]:
    return Column(name, Text, primary_key=True)


def _number_key(name: str) -> Column[Any]:
    return Column(name, BigInteger, primary_key=True)


def _text(name: str) -> Column[Any]:
    return Column(name, Text)


def _number(name: str, merge: Merge = Merge.LATEST) -> Column[Any]:
    return Column(name, BigInteger, info={"merge": merge})


def _version() -> Column[Any]:
    """The resourceVersion that the LATEST columns were read at, above it how often the API server's history went back."""
    return Column("version", BigInteger, nullable=False, info={"merge": Merge.LAST})


_IS_GROUP: Final = text("kind IS NOT NULL")
_HAS_PARENT: Final = text("parent IS NOT NULL")


def _by_parent(table: str) -> tuple[Index, Index]:
    """What is below a CompositePodGroup, by its name and by its uid."""
    names = f"{table}_by_parent", f"{table}_by_parent_uid"
    by_name = Index(names[0], "cluster", "parent", sqlite_where=_HAS_PARENT, postgresql_where=_HAS_PARENT)
    return by_name, Index(names[1], "cluster", "parent_uid", sqlite_where=_HAS_PARENT, postgresql_where=_HAS_PARENT)


jobs: Final = Table(
    "jobs",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("kind", "namespace", "name", "queue", "submitted_by")),
    *map(_text, ("priority_class", "shape", "image", "estimate", "labels", "phase", "reason", "message")),
    *(Column(name, Text, info={"merge": Merge.FIRST}) for name in ("owner_kind", "owner_name", "owner_uid", "parent_uid")),
    *map(_text, ("requests", "parent")),
    *map(_number, ("gang_size", "retries")),
    *(_number(name, Merge.FIRST) for name in ("created", "let_in", "placed", "started", "removed")),
    _number("ended"),
    Index("jobs_by_time", "cluster", "created"),
    Index("jobs_by_name", "cluster", "namespace", "name"),
    Index("jobs_by_end", "cluster", "ended"),
    Index("jobs_by_start", "cluster", "started"),
    Index("jobs_by_owner", "cluster", "owner_uid", sqlite_where=_IS_GROUP, postgresql_where=_IS_GROUP),
    *_by_parent("jobs"),
)
"""Jobs, which have no `kind`, and what is shown like them.

`parent`: the CompositePodGroup of Kubernetes that one names; `parent_uid`: its row in `composites`.
"""

composites: Final = Table(
    "composites",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("namespace", "name", "parent", "queue", "estimate", "phase", "alike", "owner", "declared")),
    *(Column(name, Text, info={"merge": Merge.FIRST}) for name in ("parent_uid", "owner_name")),
    *map(_number, ("min_groups", "ended")),
    *(_number(name, Merge.FIRST) for name in ("created", "started", "removed")),
    Index("composites_by_name", "cluster", "namespace", "name"),
    Index("composites_by_end", "cluster", "ended"),
    *_by_parent("composites"),
)
"""CompositePodGroups. Of one without a parent, `phase` to `declared` tell how all below it runs, as of a Job."""

job_phases: Final = Table(
    "job_phases", METADATA, _key("cluster"), _key("job"), _number_key("at"), _key("name"), _version(), _text("message")
)

job_causes: Final = Table(
    "job_causes", METADATA, _key("cluster"), _key("job"), _number_key("at"), _key("name"), _version(), _text("message")
)

PREPARED: Final = "Prepared"
SCHEDULED: Final = "Scheduled"
_TRACE_STEPS: Final = frozenset({PREPARED, SCHEDULED})
"""Names of rows of `job_causes` that are no causes, of traced Jobs: when the PodGroup was made, and what placed the gang.

`Scheduled` is followed by a blank and the session, as several may place the gang in one second.
"""

FLOW_ENDED: Final = "FlowEnded"
"""The name of rows of `job_phases` that say that a traced flow, whose uid is in `job`, has ended, and its span was sent."""

job_alikes: Final = Table(
    "job_alikes",
    METADATA,
    _key("cluster"),
    _key("job"),
    _version(),
    *map(_text, ("alike", "owner", "estimate")),
    _number("at", Merge.FIRST),
)
"""What a Job has in common with others: digests of keys with commas, and that of whose estimate it carries.

`estimate`: that of its oldest pod, which counts where the Job itself has none.
"""

owners: Final = Table(
    "owners",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("kind", "namespace", "name", "submitted_by", "phase")),
    *(_number(name, Merge.FIRST) for name in ("created", "removed")),
    _number("ended"),
)
"""What makes Jobs: flows, CronJobs, HyperJobs, and Jobs of Kubernetes; `owner_uid` of a Job, or PodGroup, names the row."""

_IS_IN_GROUP: Final = text("pod_group IS NOT NULL")

pods: Final = Table(
    "pods",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("namespace", "name", "queue", "task", "node", "requests", "phase", "reason", "evicted_for")),
    *map(_text, ("pod_group", "estimate")),
    *(Column(name, Text, info={"merge": Merge.FIRST}) for name in ("job", "domain")),
    *map(_number, ("task_index", "job_version", "exit_code")),
    *(_number(name, Merge.FIRST) for name in ("created", "bound", "started", "finished", "released_high")),
    _number("released_low", Merge.LAST),
    Index("pods_by_job", "cluster", "job"),
    Index("pods_by_end", "cluster", "released_high"),
    Index("pods_by_group", "cluster", "pod_group", sqlite_where=_IS_IN_GROUP, postgresql_where=_IS_IN_GROUP),
)
"""`job`: the row in `jobs` that it belongs to; `pod_group`: the PodGroup of Kubernetes itself that one without a Job names."""


def _usage(name: str, time: str) -> Table:
    """Usage in spans of time that begin at `time`."""
    return Table(
        name,
        METADATA,
        _key("cluster"),
        _number_key(time),
        *map(_key, ("queue", "namespace", "submitted_by", "flow", "resource")),
        *(Column(each, BigInteger, nullable=False) for each in ("asked", "doubtful")),
        *(Column(each, BigInteger, nullable=False, server_default="0") for each in ("measured", "used")),
    )


usage_hours: Final = _usage("usage_hours", "hour")
"""`measured`: the part of `asked` whose pods were measured; `used`: what these used of it."""

usage_days: Final = _usage("usage_days", "day")
"""The sums of the hours of each day in UTC, worked out anew with them."""

cursors: Final = Table(
    "cursors", METADATA, _key("cluster"), _key("kind"), _text("resource_version"), *map(_number, ("at", "epoch"))
)

gaps: Final = Table(
    "gaps", METADATA, _key("cluster"), _key("kind"), _number_key("since"), _version(), _number("until", Merge.LAST), _text("why")
)

node_states: Final = Table(
    "node_states",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _number_key("at"),
    _version(),
    *map(_text, ("name", "allocatable")),
    _number("is_down"),
)
"""What a node had from a moment on, until its next row."""

queue_minutes: Final = Table(
    "queue_minutes",
    METADATA,
    _key("cluster"),
    _number_key("minute"),
    *map(_key, ("queue", "resource")),
    _version(),
    *map(_number, ("guarantee", "deserved", "capability")),
    *(_number(name, Merge.LAST) for name in ("allocated", "requested", "waiting")),
)
"""What a queue was to have in a minute, as it stood last, and the most that it had, was asked for, and let wait."""

reservations: Final = Table("reservations", METADATA, _key("cluster"), _key("uid"), _number_key("at"), _version(), _text("nodes"))
"""The names of the nodes, as JSON, that were kept for the PodGroup `uid` from a moment on, until its next row."""

pod_use: Final = Table(
    "pod_use",
    METADATA,
    _key("cluster"),
    _key("pod"),
    _key("resource"),
    _number_key("since"),
    _version(),
    _text("source"),
    *map(_number, ("samples", "mean", "p95", "largest")),
)
"""What a pod used, as one process measured it `since` a moment; `version` is the number of samples, so that the most count."""

predictions: Final = Table(
    "predictions",
    METADATA,
    _key("cluster"),
    _key("job"),
    _number_key("at"),
    _version(),
    *map(_number, ("p10", "p50", "p90")),
    _text("basis"),
)
"""When the scheduler said, at a time, that a Job would start. When it did, its row in `jobs` tells."""

dirty_hours: Final = Table("dirty_hours", METADATA, _key("cluster"), _number_key("hour"))
