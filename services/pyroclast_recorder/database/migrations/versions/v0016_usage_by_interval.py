"""Past states of pods and Jobs, the parents of queues, and the ancestors of the queue in each row of usage.

All rows are kept. Their ancestors are not known, and pods and Jobs have no past states until their next event.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_USAGE: Final = {"usage_hours": "hour", "usage_days": "day"}
_WHOSE: Final = ("namespace", "submitted_by", "flow", "resource")
_SUMS: Final = ("asked", "doubtful", "measured", "used")


def upgrade() -> None:
    """Add the columns and the table."""
    for table in ("pods", "jobs"):
        op.add_column(table, sa.Column("states", sa.Text()))
    keys: list[sa.Column[Any]] = [sa.Column("cluster", sa.Text()), sa.Column("uid", sa.Text()), sa.Column("at", sa.BigInteger())]
    others: list[sa.Column[Any]] = [sa.Column("version", sa.BigInteger(), nullable=False), sa.Column("parent", sa.Text())]
    op.create_table("queue_parents", *keys, *others, sa.PrimaryKeyConstraint("cluster", "uid", "at"))
    for table, time in _USAGE.items():
        _make_again(table, time, ("queue", "ancestors", *_WHOSE), "'' AS ancestors")


def downgrade() -> None:
    """Drop the columns and the table. Usage of one queue below different ancestors is added up."""
    for table, time in _USAGE.items():
        _make_again(table, time, ("queue", *_WHOSE), "")
    op.drop_table("queue_parents")
    for table in ("pods", "jobs"):
        op.drop_column(table, "states")


def _make_again(table: str, time: str, whose: tuple[str, ...], ancestors: str) -> None:
    """Make a table of usage with another key, and copy its rows. `ancestors`: the value of a new column of the key.

    The default lets a replica of the release before write until it is replaced.
    """
    keys = [_column(name, sa.BigInteger() if name == time else sa.Text()) for name in ("cluster", time, *whose)]
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
