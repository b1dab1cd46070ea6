"""The columns for native PodGroups in the table of Jobs, and for the PodGroup that a pod names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

IN_GROUP = sa.text("pod_group IS NOT NULL")


def upgrade() -> None:
    """Add the columns, which are empty for earlier rows, and the index of pods by PodGroup."""
    op.add_column("jobs", sa.Column("kind", sa.Text(), nullable=True))
    op.add_column("pods", sa.Column("pod_group", sa.Text(), nullable=True))
    op.create_index("pods_by_group", "pods", ["cluster", "pod_group"], sqlite_where=IN_GROUP, postgresql_where=IN_GROUP)


def downgrade() -> None:
    """Drop the columns and the index, and delete the rows of PodGroups, which an older version would show as Jobs."""
    op.execute("DELETE FROM jobs WHERE kind IS NOT NULL")
    op.drop_index("pods_by_group", "pods")
    op.drop_column("pods", "pod_group")
    op.drop_column("jobs", "kind")
