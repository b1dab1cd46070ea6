"""The migration of the schema to the version of this code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

LOCK: Final = 7_310_842_115
"""The number of the advisory lock in PostgreSQL with which only one process migrates at a time. The number is arbitrary."""


class NewerSchema(Exception):
    """The schema was written by a later version of the recorder."""


def migrate(connection: Connection) -> None:
    """Upgrade to the latest schema, inside the transaction of `connection`.

    Raises NewerSchema: the schema of the database is newer than this code.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    settings = configuration(connection)
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    if current is not None and current not in known:
        raise NewerSchema(
            f"the database has schema {current}, which this version does not know: run a later one, or restore a backup"
        )
    command.upgrade(settings, "head")


def configuration(connection: Connection) -> Config:
    """Return the configuration of alembic for a connection."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    settings.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    settings.attributes["connection"] = connection
    return settings
