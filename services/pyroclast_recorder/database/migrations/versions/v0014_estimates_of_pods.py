"""The columns of the estimates of pods, for native PodGroups without an estimate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, which are empty for earlier rows."""
    op.add_column("pods", sa.Column("estimate", sa.Text(), nullable=True))
    op.add_column("job_alikes", sa.Column("estimate", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("job_alikes", "estimate")
    op.drop_column("pods", "estimate")
