"""The table of CompositePodGroups, and the columns with the parents of PodGroups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

HAS_PARENT = sa.text("parent IS NOT NULL")
TEXTS = ("namespace", "name", "parent", "parent_uid", "queue", "owner_name", "estimate", "phase", "alike", "owner", "declared")
NUMBERS = ("min_groups", "created", "started", "removed", "ended")


def upgrade() -> None:
    """Create the table, and add the columns. Existing PodGroups get a parent with their next event."""
    op.create_table(
        "composites",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=True) for name in TEXTS),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in NUMBERS),
        sa.PrimaryKeyConstraint("cluster", "uid"),
    )
    op.create_index("composites_by_name", "composites", ["cluster", "namespace", "name"])
    op.create_index("composites_by_end", "composites", ["cluster", "ended"])
    for name in ("parent", "parent_uid"):
        op.add_column("jobs", sa.Column(name, sa.Text(), nullable=True))
    for table in ("jobs", "composites"):
        for column in ("parent", "parent_uid"):
            index = f"{table}_by_{column}"
            op.create_index(index, table, ["cluster", column], sqlite_where=HAS_PARENT, postgresql_where=HAS_PARENT)


def downgrade() -> None:
    """Drop the table and the columns."""
    for index in ("jobs_by_parent_uid", "jobs_by_parent"):
        op.drop_index(index, "jobs")
    for name in ("parent_uid", "parent"):
        op.drop_column("jobs", name)
    op.drop_table("composites")
