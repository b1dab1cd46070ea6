"""The table of the predicted start times of Jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and the index of Jobs by start."""
    op.create_table(
        "predictions",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("p10", sa.BigInteger(), nullable=True),
        sa.Column("p50", sa.BigInteger(), nullable=True),
        sa.Column("p90", sa.BigInteger(), nullable=True),
        sa.Column("basis", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job", "at"),
    )
    op.create_index("jobs_by_start", "jobs", ["cluster", "started"])


def downgrade() -> None:
    """Drop the index and the table."""
    op.drop_index("jobs_by_start", "jobs")
    op.drop_table("predictions")
