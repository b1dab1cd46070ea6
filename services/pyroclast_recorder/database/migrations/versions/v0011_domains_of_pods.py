"""The column of the HyperNode in which a pod ran."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which is empty for earlier pods."""
    op.add_column("pods", sa.Column("domain", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("pods", "domain")
