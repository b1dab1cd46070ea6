"""The part of the network that a pod ran in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of pods that were there before, it is not known."""
    op.add_column("pods", sa.Column("domain", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("pods", "domain")
