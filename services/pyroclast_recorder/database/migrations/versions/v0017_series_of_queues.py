"""What queues had by hour and by day, their measured use by minute, and the versions in which objects were gone.

All rows are kept. The hours before the migration have no means, because only hours that are added up again get them. Deleted
objects were gone in the last version that was seen of them. Of pods, it is not known.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_NUMBERS: Final = ("samples", "guarantee", "deserved", "allocated", "requested", "waiting", "capability", "evictions")
_REMOVED: Final = ("jobs", "composites", "owners")
_TABLES: Final = {"queue_hours": "hour", "queue_days": "day"}


def upgrade() -> None:
    """Add the column and the tables."""
    op.add_column("queue_minutes", sa.Column("used", sa.BigInteger()))
    for table, time in _TABLES.items():
        keys = ("cluster", time, "queue", "resource")
        columns = [sa.Column(name, sa.BigInteger() if name == time else sa.Text(), nullable=False) for name in keys]
        others = [sa.Column(name, sa.BigInteger()) for name in _NUMBERS]
        op.create_table(table, *columns, *others, sa.PrimaryKeyConstraint(*keys))
    op.add_column("pods", sa.Column("removed", sa.BigInteger()))
    op.add_column("pods", sa.Column("gone", sa.BigInteger()))
    for table in _REMOVED:
        op.add_column(table, sa.Column("gone", sa.BigInteger()))
        op.execute(f"UPDATE {table} SET gone = version WHERE removed IS NOT NULL")  # noqa: S608 - our own names


def downgrade() -> None:
    """Drop the columns, and the tables with their rows."""
    for table in (*_REMOVED, "pods"):
        op.drop_column(table, "gone")
    op.drop_column("pods", "removed")
    for table in _TABLES:
        op.drop_table(table)
    op.drop_column("queue_minutes", "used")
