"""The columns of measured use in the table of usage by hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Hours that were added up before have no measured use."""
    for name in ("measured", "used"):
        op.add_column("usage_hours", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the columns."""
    for name in ("measured", "used"):
        op.drop_column("usage_hours", name)
