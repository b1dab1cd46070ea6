"""What was used in an hour beside what was asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of hours that were added up before, nothing is known to have been measured."""
    for name in ("measured", "used"):
        op.add_column("usage_hours", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop them."""
    for name in ("measured", "used"):
        op.drop_column("usage_hours", name)
