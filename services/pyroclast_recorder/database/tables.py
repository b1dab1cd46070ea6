"""The tables of the recorder, and the rule by which each column of two rows is merged.

Times are whole seconds since the epoch in UTC. Amounts are whole numbers: cpu in millicores, memory and storage in MiB, other
resources in thousandths. Usage is an amount multiplied by seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text, text

Row: TypeAlias = Mapping[str, Any]
METADATA: Final = MetaData()


class Merge(Enum):
    """The rule by which a column of two rows with the same key is merged. Each rule is commutative, associative and idempotent.

    FIRST is the smaller and LAST the larger of two values that are not None. LATEST is the value of the row with the larger
    `version`. STATES are the past states of both rows; see `past_states`.

    REMOVED is the time of a claim that the object is gone, an event or a list, of the version `gone`. The claim with the largest
    version counts, until the object is seen in a larger version. RELEASED is the first end that the object reported itself, or
    else the time of that claim.
    """

    FIRST = "first"
    LAST = "last"
    LATEST = "latest"
    STATES = "states"
    REMOVED = "removed"
    RELEASED = "released"


def trace_step(name: str) -> str:
    """Return `Prepared` or `Scheduled` if the name of a row in `job_causes` is a step of a trace; empty for a cause."""
    step = name.partition(" ")[0]
    return step if step in _TRACE_STEPS else ""


def merge_of(column: Column[Any]) -> Merge:
    """Return the merge rule of a column."""
    return column.info.get("merge", Merge.LATEST)  # type: ignore[no-any-return]


def _key(name: str) -> Column[Any]:
    return Column(name, Text, primary_key=True)


def _number_key(name: str) -> Column[Any]:
    return Column(name, BigInteger, primary_key=True)


def _text(name: str) -> Column[Any]:
    return Column(name, Text)


def _number(name: str, merge: Merge = Merge.LATEST) -> Column[Any]:
    return Column(name, BigInteger, info={"merge": merge})


def _states() -> Column[Any]:
    return Column("states", Text, info={"merge": Merge.STATES})


def _version() -> Column[Any]:
    """The column `version`: the resourceVersion at which the LATEST columns were read, with the epoch in the high bits."""
    return Column("version", BigInteger, nullable=False, info={"merge": Merge.LAST})


def _removed() -> tuple[Column[Any], Column[Any]]:
    """The columns `removed`, and `gone`: the version in which the object was gone. For pods, 0 if the object was there."""
    return _number("removed", Merge.REMOVED), _number("gone", Merge.LAST)


_IS_GROUP: Final = text("kind IS NOT NULL")
_HAS_PARENT: Final = text("parent IS NOT NULL")


def _by_parent(table: str) -> tuple[Index, Index]:
    """The indexes of the children of a CompositePodGroup, by the name and by the uid of the parent."""
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
    *(_number(name, Merge.FIRST) for name in ("created", "let_in", "placed", "started")),
    _number("ended"),
    *_removed(),
    _states(),
    Index("jobs_by_time", "cluster", "created"),
    Index("jobs_by_name", "cluster", "namespace", "name"),
    Index("jobs_by_end", "cluster", "ended"),
    Index("jobs_by_start", "cluster", "started"),
    Index("jobs_by_owner", "cluster", "owner_uid", sqlite_where=_IS_GROUP, postgresql_where=_IS_GROUP),
    *_by_parent("jobs"),
)
"""Jobs, with `kind` None, and native PodGroups, which are shown like Jobs.

`parent`: the name of the parent CompositePodGroup of a PodGroup. `parent_uid`: the uid of the parent's row in `composites`.
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
    *(_number(name, Merge.FIRST) for name in ("created", "started")),
    *_removed(),
    Index("composites_by_name", "cluster", "namespace", "name"),
    Index("composites_by_end", "cluster", "ended"),
    *_by_parent("composites"),
)
"""CompositePodGroups. For a root, the columns from `phase` to `declared` describe the run of its whole tree, like a Job."""

job_phases: Final = Table(
    "job_phases",
    METADATA,
    _key("cluster"),
    _key("job"),
    _number_key("at"),
    _key("name"),
    _version(),
    Column("message", Text, info={"merge": Merge.FIRST}),
)
"""The phases of Jobs. `message`: of the present phase of a Job, which it keeps when the Job enters its next phase."""


job_causes: Final = Table(
    "job_causes", METADATA, _key("cluster"), _key("job"), _number_key("at"), _key("name"), _version(), _text("message")
)

PREPARED: Final = "Prepared"
SCHEDULED: Final = "Scheduled"
_TRACE_STEPS: Final = frozenset({PREPARED, SCHEDULED})
"""The names of rows in `job_causes` of traced Jobs that are steps of the trace, not causes.

`Prepared` is the creation of the PodGroup. `Scheduled` is a decision that placed the gang. A blank and the session follow
`Scheduled`, because several sessions may place the gang within one second.
"""

FLOW_ENDED: Final = "FlowEnded"
"""The name of rows in `job_phases` for a traced flow that has ended and whose span was sent. `job` is the uid of the flow."""

job_alikes: Final = Table(
    "job_alikes",
    METADATA,
    _key("cluster"),
    _key("job"),
    _version(),
    *map(_text, ("alike", "owner", "estimate")),
    _number("at", Merge.FIRST),
)
"""The keys of similar Jobs for each Job.

`alike`: the digests of the keys, separated by commas. `owner`: the digest of the key by which estimates are judged.
`estimate`: the estimate of the oldest pod, which is used when the Job has no estimate.
"""

owners: Final = Table(
    "owners",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("kind", "namespace", "name", "submitted_by", "phase")),
    _number("created", Merge.FIRST),
    _number("ended"),
    *_removed(),
)
"""Owners of Jobs and PodGroups: flows, CronJobs, HyperJobs and native Jobs. `owner_uid` in `jobs` is the uid of the owner."""

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
    *(_number(name, Merge.FIRST) for name in ("created", "bound", "started", "finished")),
    _number("released_high", Merge.RELEASED),
    _number("released_low", Merge.LAST),
    *_removed(),
    _states(),
    Index("pods_by_job", "cluster", "job"),
    Index("pods_by_end", "cluster", "released_high"),
    Index("pods_by_group", "cluster", "pod_group", sqlite_where=_IS_IN_GROUP, postgresql_where=_IS_IN_GROUP),
)
"""Pods. `job`: the uid of the pod's row in `jobs`. `pod_group`: the native PodGroup that a pod without a Job names."""


def _usage(name: str, time: str) -> Table:
    """Return a table of usage per interval. `time`: the name of the column with the start of the interval."""
    return Table(
        name,
        METADATA,
        _key("cluster"),
        _number_key(time),
        _key("queue"),
        Column("ancestors", Text, primary_key=True, server_default=""),
        *map(_key, ("namespace", "submitted_by", "flow", "resource")),
        *(Column(each, BigInteger, nullable=False) for each in ("asked", "doubtful")),
        *(Column(each, BigInteger, nullable=False, server_default="0") for each in ("measured", "used")),
    )


usage_hours: Final = _usage("usage_hours", "hour")
"""Usage by hour. `asked`: the requests. `measured`: the requests of measured pods. `used`: the measured use of these pods.

`ancestors`: the names of the ancestors of the queue at that time, from the root on, joined by `/`; empty when they are not known.
"""

usage_days: Final = _usage("usage_days", "day")
"""Usage by day in UTC: the sums of the hours, updated in the transaction that updates the hours."""

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
"""The allocatable resources and the state of a node from the time `at` until the next row of the node."""

queue_parents: Final = Table(
    "queue_parents", METADATA, _key("cluster"), _key("uid"), _number_key("at"), _version(), _text("parent")
)
"""The parent of the queue with the name `uid` from the time `at` until its next row. A deleted queue keeps its last parent."""

queue_settings: Final = Table(
    "queue_settings", METADATA, _key("cluster"), _key("uid"), _number_key("at"), _version(), *map(_text, ("name", "settings"))
)
"""The spec and the budget of a queue, as JSON, from the time `at` until its next row; empty after its deletion."""

commands: Final = Table(
    "commands",
    METADATA,
    _key("cluster"),
    _key("uid"),
    _version(),
    *map(_text, ("namespace", "kind", "name", "target", "action", "submitted_by", "message")),
    _number("at", Merge.FIRST),
    Index("commands_by_time", "cluster", "at"),
)
"""Commands. `kind`, `name` and `target`, the uid, are those of the object to which the action applied."""

queue_minutes: Final = Table(
    "queue_minutes",
    METADATA,
    _key("cluster"),
    _number_key("minute"),
    *map(_key, ("queue", "resource")),
    _version(),
    *map(_number, ("guarantee", "deserved", "capability")),
    *(_number(name, Merge.LAST) for name in ("allocated", "requested", "waiting", "used")),
)
"""The resources of a queue by minute.

`guarantee`, `deserved` and `capability` are the last values in the minute. `allocated`, `requested`, `waiting` and `used`, the
measured use, are the largest values in the minute.
"""

MEANS: Final = ("guarantee", "deserved", "allocated", "requested", "waiting")
"""The columns of `queue_hours` and `queue_days` that are means of the minutes."""


def _queues(name: str, time: str) -> Table:
    numbers = map(_number, ("samples", *MEANS, "capability", "evictions"))
    return Table(name, METADATA, _key("cluster"), _number_key(time), *map(_key, ("queue", "resource")), *numbers)


queue_hours: Final = _queues("queue_hours", "hour")
"""The means of `queue_minutes` by hour. `samples`: the number of minutes. A row without a resource has the evicted pods."""

queue_days: Final = _queues("queue_days", "day")
"""The means of `queue_hours` by day in UTC."""

reservations: Final = Table("reservations", METADATA, _key("cluster"), _key("uid"), _number_key("at"), _version(), _text("nodes"))
"""The names of the nodes, as JSON, that were reserved for the PodGroup `uid` from the time `at` until its next row."""

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
"""The measured use of a pod, from the samples of one process since the time `since`.

`version` is the number of samples, so that the row with the most samples is kept.
"""

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
"""The start time of a Job as the scheduler predicted it at the time `at`. The actual start is in `jobs`."""

notices: Final = Table(
    "notices",
    METADATA,
    _key("cluster"),
    *map(_key, ("subject", "what", "target")),
    *map(_text, ("title", "body")),
    *map(_number, ("at", "due", "begun", "sent")),
    Index("notices_by_sent", "cluster", "sent"),
)
"""Messages about transitions. The key admits one for each transition and target, whoever finds the transition and how often.

`subject`: the uid of a Job, or the name of a queue. `due`: when the messages that are collected with it
are sent, 0 for one that is sent alone. `begun`: when the last attempt to send it began.
"""

dirty_hours: Final = Table("dirty_hours", METADATA, _key("cluster"), _number_key("hour"))
