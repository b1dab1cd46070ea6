"""Messages to people about transitions of Jobs and budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    keys = ("cluster", "subject", "what", "target")
    columns = [*(sa.Column(name, sa.Text()) for name in (*keys, "title", "body"))]
    numbers = [sa.Column(name, sa.BigInteger()) for name in ("at", "due", "begun", "sent")]
    op.create_table("notices", *columns, *numbers, sa.PrimaryKeyConstraint(*keys))
    op.create_index("notices_by_sent", "notices", ["cluster", "sent"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("notices")
