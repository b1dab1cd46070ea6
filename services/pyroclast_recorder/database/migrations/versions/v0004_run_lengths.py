"""The table of the keys of similar Jobs, for their run times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and the index of Jobs by end."""
    op.create_table(
        "job_alikes",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("alike", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job"),
    )
    op.create_index("jobs_by_end", "jobs", ["cluster", "ended"])


def downgrade() -> None:
    """Drop the index and the table."""
    op.drop_index("jobs_by_end", "jobs")
    op.drop_table("job_alikes")
