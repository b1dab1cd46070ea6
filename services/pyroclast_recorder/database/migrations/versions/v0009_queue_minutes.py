"""What queues had and were asked for, minute by minute, and what Jobs ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

AMOUNTS = ("guarantee", "deserved", "capability", "allocated", "requested", "waiting")


def upgrade() -> None:
    """Make the table, and the column that two of its amounts are added up from."""
    op.create_table(
        "queue_minutes",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in AMOUNTS),
        sa.PrimaryKeyConstraint("cluster", "minute", "queue", "resource"),
    )
    op.add_column("jobs", sa.Column("requests", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop both."""
    op.drop_column("jobs", "requests")
    op.drop_table("queue_minutes")
