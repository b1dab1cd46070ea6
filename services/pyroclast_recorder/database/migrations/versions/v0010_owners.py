"""The table of owners of Jobs: flows, CronJobs and HyperJobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "owners",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("kind", "namespace", "name", "submitted_by", "phase")),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in ("created", "ended", "removed")),
        sa.PrimaryKeyConstraint("cluster", "uid"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("owners")
