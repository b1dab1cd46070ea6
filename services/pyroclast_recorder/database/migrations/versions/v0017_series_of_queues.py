"""What queues had and their settings, Commands, measured use by minute, and the versions in which objects were gone.

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
_STATES: Final = {
    "queue_settings": (("cluster", "uid", "at"), ("name", "settings")),
    "commands": (("cluster", "uid"), ("namespace", "kind", "name", "target", "action", "submitted_by", "message", "at")),
}
_TABLES: Final = {"queue_hours": "hour", "queue_days": "day"}


def upgrade() -> None:
    """Add the column and the tables."""
    op.add_column("queue_minutes", sa.Column("used", sa.BigInteger()))
    for table, time in _TABLES.items():
        keys = ("cluster", time, "queue", "resource")
        columns = [sa.Column(name, sa.BigInteger() if name == time else sa.Text(), nullable=False) for name in keys]
        numbers = [sa.Column(name, sa.BigInteger()) for name in _NUMBERS]
        op.create_table(table, *columns, *numbers, sa.PrimaryKeyConstraint(*keys))
    op.add_column("pods", sa.Column("removed", sa.BigInteger()))
    op.add_column("pods", sa.Column("gone", sa.BigInteger()))
    for table, (keyed_names, others) in _STATES.items():
        keyed = [sa.Column(name, sa.BigInteger() if name == "at" else sa.Text(), nullable=False) for name in keyed_names]
        version = sa.Column("version", sa.BigInteger(), nullable=False)
        rest = [sa.Column(name, sa.BigInteger() if name == "at" else sa.Text()) for name in others]
        op.create_table(table, *keyed, version, *rest, sa.PrimaryKeyConstraint(*keyed_names))
    op.create_index("commands_by_time", "commands", ["cluster", "at"])
    for table in _REMOVED:
        op.add_column(table, sa.Column("gone", sa.BigInteger()))
        op.execute(f"UPDATE {table} SET gone = version WHERE removed IS NOT NULL")  # noqa: S608 - our own names


def downgrade() -> None:
    """Drop the columns, and the tables with their rows."""
    for table in (*_REMOVED, "pods"):
        op.drop_column(table, "gone")
    op.drop_column("pods", "removed")
    for table in (*_TABLES, *_STATES):
        op.drop_table(table)
    op.drop_column("queue_minutes", "used")
