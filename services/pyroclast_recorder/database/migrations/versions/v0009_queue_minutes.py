"""The table of the resources of queues by minute, and the column of the requests of Jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

AMOUNTS = ("guarantee", "deserved", "capability", "allocated", "requested", "waiting")


def upgrade() -> None:
    """Create the table, and the column from which the amounts `requested` and `waiting` are added up."""
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
    """Drop the column and the table."""
    op.drop_column("jobs", "requests")
    op.drop_table("queue_minutes")
