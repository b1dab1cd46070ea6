"""The table of node states, for the report of the cluster."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "node_states",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("allocatable", sa.Text(), nullable=True),
        sa.Column("is_down", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "uid", "at"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("node_states")
