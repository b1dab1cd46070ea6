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


class UnknownSchema(Exception):
    """The schema was written by a later version of the recorder, or by one before the first release; the text says what helps."""


def migrate(connection: Connection) -> None:
    """Upgrade to the latest schema, inside the transaction of `connection`. Raises UnknownSchema."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    settings = configuration(connection)
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    if current is not None and current not in known:
        is_early = current < min(known)  # revisions are numbers of four digits
        advice = (
            "it is from before the first release: use an empty database" if is_early else "run a later one, or restore a backup"
        )
        raise UnknownSchema(f"the database has schema {current}, which this version does not know: {advice}")
    command.upgrade(settings, "head")


def configuration(connection: Connection) -> Config:
    """Return the configuration of alembic for a connection."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    settings.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    settings.attributes["connection"] = connection
    return settings
