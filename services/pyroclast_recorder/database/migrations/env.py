"""The entry point of alembic, which runs the migrations on the connection in its configuration."""

from alembic import context

from pyroclast_recorder.database.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
