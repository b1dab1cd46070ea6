"""Past states of pods and Jobs, parents of queues, ancestors in rows of usage, series and settings of queues, Commands, notices.

All rows are kept. Their ancestors are not known, and pods and Jobs have no past states until their next event. The hours before
the migration have no means, because only hours that are added up again get them. Deleted objects were gone in the last version
that was seen of them. Of pods, it is not known.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0015"
branch_labels = None
depends_on = None

_USAGE: Final = {"usage_hours": "hour", "usage_days": "day"}
_WHOSE: Final = ("namespace", "submitted_by", "flow", "resource")
_SUMS: Final = ("asked", "doubtful", "measured", "used")
_MEANS: Final = ("samples", "guarantee", "deserved", "allocated", "requested", "waiting", "capability", "evictions")
_COMMAND: Final = ("version", "namespace", "kind", "name", "target", "action", "submitted_by", "message", "at")
_NUMBERS: Final = frozenset({"at", "version", "hour", "day", "due", "begun", "sent", *_MEANS})
_TABLES: Final = {
    "queue_parents": (("cluster", "uid", "at"), ("version", "parent")),
    "queue_settings": (("cluster", "uid", "at"), ("version", "name", "settings")),
    "commands": (("cluster", "uid"), _COMMAND),
    "queue_hours": (("cluster", "hour", "queue", "resource"), _MEANS),
    "queue_days": (("cluster", "day", "queue", "resource"), _MEANS),
    "notices": (("cluster", "subject", "what", "target"), ("title", "body", "at", "due", "begun", "sent")),
}
"""The names of the key and of the other columns of each new table."""

_INDEXES: Final = (("commands_by_time", "commands", "at"), ("notices_by_sent", "notices", "sent"))
_COLUMNS: Final = (
    *(("pods", sa.Text, "states"), ("jobs", sa.Text, "states"), ("queue_minutes", sa.BigInteger, "used")),
    *(
        ("pods", sa.BigInteger, "removed"),
        *((table, sa.BigInteger, "gone") for table in ("pods", "jobs", "composites", "owners")),
    ),
)


def upgrade() -> None:
    """Add the columns and the tables."""
    for table, type_, name in _COLUMNS:
        op.add_column(table, sa.Column(name, type_()))
    for table in ("jobs", "composites", "owners"):
        op.execute(f"UPDATE {table} SET gone = version WHERE removed IS NOT NULL")  # noqa: S608 - our own names
    for table, (key, others) in _TABLES.items():
        columns = [sa.Column(name, _type(name), nullable=name not in {*key, "version"}) for name in (*key, *others)]
        op.create_table(table, *columns, sa.PrimaryKeyConstraint(*key))
    for name, table, column in _INDEXES:
        op.create_index(name, table, ["cluster", column])
    for table, time in _USAGE.items():
        _make_again(table, time, ("queue", "ancestors", *_WHOSE), "'' AS ancestors")


def downgrade() -> None:
    """Drop the columns, and the tables with their rows. Usage of one queue below different ancestors is added up."""
    for table, time in _USAGE.items():
        _make_again(table, time, ("queue", *_WHOSE), "")
    for table in _TABLES:
        op.drop_table(table)
    for table, _, name in _COLUMNS:
        op.drop_column(table, name)


def _type(name: str) -> sa.types.TypeEngine[Any]:
    return sa.BigInteger() if name in _NUMBERS else sa.Text()


def _make_again(table: str, time: str, whose: tuple[str, ...], ancestors: str) -> None:
    """Make a table of usage with another key, and copy its rows. `ancestors`: the value of a new column of the key.

    The default lets a replica of the release before write until it is replaced.
    """
    keys = [_column(name, _type(name)) for name in ("cluster", time, *whose)]
    sums = [_column(name, sa.BigInteger(), "0" if name in {"measured", "used"} else None) for name in _SUMS]
    op.rename_table(table, f"{table}_before")
    names = [column.name for column in keys]
    op.create_table(table, *keys, *sums, sa.PrimaryKeyConstraint(*names, name=f"{table}_key_{len(names)}"))
    own = ", ".join(("cluster", time, "queue", *_WHOSE))
    chosen = ", ".join((own, *([ancestors] if ancestors else []), *(f"sum({name})" for name in _SUMS)))
    into = ", ".join((own, *(["ancestors"] if ancestors else []), *_SUMS))
    op.execute(f"INSERT INTO {table} ({into}) SELECT {chosen} FROM {table}_before GROUP BY {own}")  # noqa: S608 - our own names
    op.drop_table(f"{table}_before")


def _column(name: str, type_: sa.types.TypeEngine[Any], default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False, server_default="" if name == "ancestors" else default)
