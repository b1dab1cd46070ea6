"""The table of the measured use of pods."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "pod_use",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("samples", sa.BigInteger(), nullable=True),
        sa.Column("mean", sa.BigInteger(), nullable=True),
        sa.Column("p95", sa.BigInteger(), nullable=True),
        sa.Column("largest", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "pod", "resource", "since"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("pod_use")
