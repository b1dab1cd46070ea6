"""The first schema that a release has."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = None
branch_labels = None
depends_on = None

_EVENT: Final = ("cluster job +at name", "+version! message")
_USAGE: Final = "queue namespace submitted_by flow resource"
_SUMS: Final = "+asked! +doubtful! +measured!0 +used!0"

TABLES: Final = {
    "composites": (
        "cluster uid",
        """
        +version! namespace name parent parent_uid queue owner_name estimate phase alike owner declared +min_groups
        +created +started +removed +ended
        """,
    ),
    "cursors": ("cluster kind", "resource_version +at +epoch"),
    "dirty_hours": ("cluster +hour", ""),
    "gaps": ("cluster kind +since", "+version! +until why"),
    "job_alikes": ("cluster job", "+version! alike owner +at estimate"),
    "job_causes": _EVENT,
    "job_phases": _EVENT,
    "jobs": (
        "cluster uid",
        """
        +version! namespace name queue submitted_by owner_kind owner_name owner_uid priority_class shape image
        estimate labels phase reason message +gang_size +retries +created +let_in +placed +started +removed +ended
        requests kind parent parent_uid
        """,
    ),
    "node_states": ("cluster uid +at", "+version! name allocatable +is_down"),
    "owners": ("cluster uid", "+version! kind namespace name submitted_by phase +created +ended +removed"),
    "pod_use": ("cluster pod resource +since", "+version! source +samples +mean +p95 +largest"),
    "pods": (
        "cluster uid",
        """
        +version! job namespace name queue task node requests phase reason evicted_for +task_index +job_version
        +exit_code +created +bound +started +finished +released_high +released_low domain pod_group estimate
        """,
    ),
    "predictions": ("cluster job +at", "+version! +p10 +p50 +p90 basis"),
    "queue_minutes": (
        "cluster +minute queue resource",
        "+version! +guarantee +deserved +capability +allocated +requested +waiting",
    ),
    "reservations": ("cluster uid +at", "+version! nodes"),
    "usage_days": (f"cluster +day {_USAGE}", _SUMS),
    "usage_hours": (f"cluster +hour {_USAGE}", _SUMS),
}
"""The columns of the key and the other columns of each table. `+`: a number, else a text. `!`: not null. `0`: the default."""

INDEXES: Final = {
    "composites_by_end": ("ended", None),
    "composites_by_name": ("namespace name", None),
    "composites_by_parent": ("parent", "parent IS NOT NULL"),
    "composites_by_parent_uid": ("parent_uid", "parent IS NOT NULL"),
    "jobs_by_end": ("ended", None),
    "jobs_by_name": ("namespace name", None),
    "jobs_by_owner": ("owner_uid", "kind IS NOT NULL"),
    "jobs_by_parent": ("parent", "parent IS NOT NULL"),
    "jobs_by_parent_uid": ("parent_uid", "parent IS NOT NULL"),
    "jobs_by_start": ("started", None),
    "jobs_by_time": ("created", None),
    "pods_by_end": ("released_high", None),
    "pods_by_group": ("pod_group", "pod_group IS NOT NULL"),
    "pods_by_job": ("job", None),
}
"""The columns of each index after `cluster`, and the condition of its rows."""


def upgrade() -> None:
    """Create all tables and indexes."""
    for table, (key, rest) in TABLES.items():
        keys = [_column(f"{name}!") for name in key.split()]
        op.create_table(table, *keys, *map(_column, rest.split()), sa.PrimaryKeyConstraint(*(column.name for column in keys)))
    for index, (columns, condition) in INDEXES.items():
        where = None if condition is None else sa.text(condition)
        table = index.partition("_by_")[0]
        op.create_index(index, table, ["cluster", *columns.split()], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Drop all tables with their rows."""
    for table in TABLES:
        op.drop_table(table)


def _column(text: str) -> sa.Column[Any]:
    name, required, default = text.partition("!")
    type_ = sa.BigInteger() if name.startswith("+") else sa.Text()
    return sa.Column(name.removeprefix("+"), type_, nullable=not required, server_default=default or None)
