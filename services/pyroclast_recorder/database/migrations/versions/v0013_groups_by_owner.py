"""The index of native PodGroups by owner, because the end of the owner determines the end of the PodGroup."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

OF_GROUPS = sa.text("kind IS NOT NULL")


def upgrade() -> None:
    """Add the index."""
    op.create_index("jobs_by_owner", "jobs", ["cluster", "owner_uid"], sqlite_where=OF_GROUPS, postgresql_where=OF_GROUPS)


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("jobs_by_owner", "jobs")
