"""The table of usage by day, for reports over months and years."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

DAY = 86_400
AT_ONCE = 30 * DAY
"""The seconds that one statement adds up. One statement for years of a large database would exceed the time limit."""

FILL = sa.text(
    """
    INSERT INTO usage_days (cluster, day, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used)
    SELECT cluster, hour / 86400 * 86400, queue, namespace, submitted_by, flow, resource,
      SUM(asked), SUM(doubtful), SUM(measured), SUM(used)
    FROM usage_hours WHERE hour >= :since AND hour < :until
    GROUP BY cluster, hour / 86400 * 86400, queue, namespace, submitted_by, flow, resource
    """
)


def upgrade() -> None:
    """Create the table, and add up the existing hours."""
    op.create_table(
        "usage_days",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("queue", "namespace", "submitted_by", "flow", "resource")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("asked", "doubtful")),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0") for name in ("measured", "used")),
        sa.PrimaryKeyConstraint("cluster", "day", "queue", "namespace", "submitted_by", "flow", "resource"),
    )
    connection = op.get_bind()
    first, last = connection.execute(sa.text("SELECT MIN(hour), MAX(hour) FROM usage_hours")).one()
    if first is not None:
        for since in range(first // DAY * DAY, last + 1, AT_ONCE):
            connection.execute(FILL, {"since": since, "until": since + AT_ONCE})


def downgrade() -> None:
    """Drop the table. The table of hours still has the usage."""
    op.drop_table("usage_days")
