"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "cursors",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("resource_version", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "kind"),
    )
    op.create_table(
        "dirty_hours",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "hour"),
    )
    op.create_table(
        "gaps",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "kind", "since"),
    )
    op.create_table(
        "job_causes",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job", "at", "name"),
    )
    op.create_table(
        "job_phases",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job", "at", "name"),
    )
    op.create_table(
        "jobs",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("submitted_by", sa.Text(), nullable=True),
        sa.Column("owner_kind", sa.Text(), nullable=True),
        sa.Column("owner_name", sa.Text(), nullable=True),
        sa.Column("owner_uid", sa.Text(), nullable=True),
        sa.Column("priority_class", sa.Text(), nullable=True),
        sa.Column("shape", sa.Text(), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("estimate", sa.Text(), nullable=True),
        sa.Column("labels", sa.Text(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("gang_size", sa.BigInteger(), nullable=True),
        sa.Column("retries", sa.BigInteger(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=True),
        sa.Column("let_in", sa.BigInteger(), nullable=True),
        sa.Column("placed", sa.BigInteger(), nullable=True),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("removed", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "uid"),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index("jobs_by_name", ["cluster", "namespace", "name"], unique=False)
        batch_op.create_index("jobs_by_time", ["cluster", "created"], unique=False)

    op.create_table(
        "pods",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.Text(), nullable=True),
        sa.Column("namespace", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("requests", sa.Text(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("evicted_for", sa.Text(), nullable=True),
        sa.Column("task_index", sa.BigInteger(), nullable=True),
        sa.Column("job_version", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=True),
        sa.Column("bound", sa.BigInteger(), nullable=True),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("finished", sa.BigInteger(), nullable=True),
        sa.Column("released_high", sa.BigInteger(), nullable=True),
        sa.Column("released_low", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "uid"),
    )
    with op.batch_alter_table("pods", schema=None) as batch_op:
        batch_op.create_index("pods_by_end", ["cluster", "released_high"], unique=False)
        batch_op.create_index("pods_by_job", ["cluster", "job"], unique=False)

    op.create_table(
        "usage_hours",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("flow", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("doubtful", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "hour", "queue", "namespace", "submitted_by", "flow", "resource"),
    )


def downgrade() -> None:
    """Drop all tables with their rows."""
    op.drop_table("usage_hours")
    with op.batch_alter_table("pods", schema=None) as batch_op:
        batch_op.drop_index("pods_by_job")
        batch_op.drop_index("pods_by_end")

    op.drop_table("pods")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index("jobs_by_time")
        batch_op.drop_index("jobs_by_name")

    op.drop_table("jobs")
    op.drop_table("job_phases")
    op.drop_table("job_causes")
    op.drop_table("gaps")
    op.drop_table("dirty_hours")
    op.drop_table("cursors")
