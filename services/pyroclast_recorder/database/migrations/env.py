"""Run by alembic: the migrations work on the connection that they are given."""

from alembic import context

from pyroclast_recorder.database.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
