"""The table of nodes that were reserved for Jobs, for the report of the cluster."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "reservations",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "uid", "at"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("reservations")
